#ifndef TIDINGS_SQLITE_SHIM_H
#define TIDINGS_SQLITE_SHIM_H

// The preupdate interface is declared only where this is set; whether the library has it is asked at run time.
#define SQLITE_ENABLE_PREUPDATE_HOOK 1
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/vfs.h>

// Weak, so that a library built without the hook still loads and its absence can be reported as an error.
// https://www.sqlite.org/c3ref/preupdate_blobwrite.html
#pragma weak sqlite3_preupdate_hook
#pragma weak sqlite3_preupdate_old
#pragma weak sqlite3_preupdate_new
#pragma weak sqlite3_preupdate_count
#pragma weak sqlite3_preupdate_blobwrite

/// 1 where the loaded library has the preupdate hook and all that belongs to it, 0 otherwise.
static inline int tidings_sqlite_has_preupdate_hook(void) {
    return sqlite3_preupdate_hook != 0 && sqlite3_preupdate_old != 0 && sqlite3_preupdate_new != 0
        && sqlite3_preupdate_count != 0 && sqlite3_preupdate_blobwrite != 0;
}

/// SQLITE_TRANSIENT: a macro with a cast that Swift does not import.
static inline sqlite3_destructor_type tidings_sqlite_transient(void) { return SQLITE_TRANSIENT; }

/// sqlite3_db_config() for the options that take an int and return one: the function is variadic.
static inline int tidings_sqlite_db_config(sqlite3 *db, int option, int value, int *result) {
    return sqlite3_db_config(db, option, value, result);
}

/// sqlite3_vtab_config() for the options without an argument: the function is variadic.
static inline int tidings_sqlite_vtab_config(sqlite3 *db, int option) {
    return sqlite3_vtab_config(db, option);
}

/// The type number of the file system that holds the path, as statfs(2) gives it; 0 where it cannot be told.
static inline unsigned int tidings_filesystem_type(const char *path) {
    struct statfs status;
    return statfs(path, &status) == 0 ? (unsigned int)status.f_type : 0;
}

/// Names the calling thread for debuggers and `ps`: prctl() is variadic.
static inline void tidings_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }

#endif
