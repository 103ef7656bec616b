import Foundation
import Testing
import TidingsTestKit

@Suite("Temporary directories")
struct TemporaryDirectoryTests {
    @Test("a temporary directory is there, empty, for its user alone")
    func exists() throws {
        let directory = try TemporaryDirectory()
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == [])
        let attributes = try FileManager.default.attributesOfItem(atPath: directory.path)
        #expect(attributes[.posixPermissions] as? Int == 0o700)
        #expect(directory.path.hasPrefix("/"))
        #expect(directory.file("a.db") == directory.path + "/a.db")
    }

    @Test("two temporary directories are two")
    func distinct() throws {
        #expect(try TemporaryDirectory().path != TemporaryDirectory().path)
    }

    @Test("a temporary directory goes with all that is in it when the object goes")
    func removed() throws {
        var directory: TemporaryDirectory? = try TemporaryDirectory()
        let path = try #require(directory?.path)
        try FileManager.default.createDirectory(atPath: path + "/deep/er", withIntermediateDirectories: true)
        #expect(FileManager.default.createFile(atPath: path + "/deep/er/file", contents: Data([1])))
        directory = nil
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test("removing a temporary directory leaves what its links point to")
    func linksAreNotFollowed() throws {
        let outside = try TemporaryDirectory()
        #expect(FileManager.default.createFile(atPath: outside.file("kept"), contents: Data([1])))
        var directory: TemporaryDirectory? = try TemporaryDirectory()
        let link = try #require(directory?.file("link"))
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: outside.path)
        directory = nil
        #expect(FileManager.default.fileExists(atPath: outside.file("kept")))
    }
}
