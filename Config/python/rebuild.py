#!/usr/bin/env python3
"""Rebuilds a table of a Tidings store from its history messages alone.

Consumes a queue that is bound to the history of a store, checks each message against the JSON Schema, and applies
the changes of one entity to a SQLite file. A message that comes twice has no second effect; one that comes too early
waits for those before it; that nothing is missing is proved by the nonce of the transaction before. The table, the
changes and the place in the history commit together, and only then is the message acknowledged to the broker.

Ends when it has applied the transaction --through, with a line of JSON that says what it did. Exit codes: 0 done,
1 something is wrong, 3 the messages do not suffice (changes were omitted, history was broken or a table changed: load
the table from the store), 4 no message came for --timeout seconds.
"""

import argparse
import base64
import json
import sqlite3
import sys

import jsonschema
import pika

# How many messages wait for an earlier one.
MOST_EARLY = 10_000


class Insufficient(Exception):
    """The messages do not tell what the table holds."""


def parse(body):
    """The message as Python values. Two members of one name are an error, as the format has it."""

    def members(pairs):
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ValueError("a name that comes twice")
        return result

    return json.loads(body.decode("utf-8"), object_pairs_hook=members)


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def bound(value):
    """A value as SQL that stands for it, and what to bind to that."""
    if isinstance(value, dict):
        ((tag, text),) = value.items()
        if tag == "$integer":
            return "?", int(text)
        if tag == "$real":
            return "?", float(text)
        data = base64.b64decode(text, validate=True)
        # SQLite keeps the bytes as they are, valid UTF-8 or not.
        return ("CAST(? AS TEXT)", data) if tag == "$text" else ("?", data)
    return "?", value


def bind(row):
    """The columns of a row, the SQL of their values, and what to bind."""
    pairs = [bound(value) for value in row.values()]
    return [quoted(name) for name in row], [sql for sql, _ in pairs], [value for _, value in pairs]


class Table:
    """The table that is rebuilt. Its columns have no types: values stay as they are."""

    def __init__(self, database, entity):
        self.database = database
        self.entity = entity
        self.name = quoted(entity)
        database.execute(
            "CREATE TABLE IF NOT EXISTS tidings_place(store TEXT, epoch TEXT, sequence INTEGER, nonce TEXT)"
        )

    def place(self):
        """How far the messages have been applied: store, epoch, sequence and nonce; None at the beginning."""
        return self.database.execute("SELECT store, epoch, sequence, nonce FROM tidings_place").fetchone()

    def exists(self):
        query = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
        return self.database.execute(query, (self.entity,)).fetchone() is not None

    def apply(self, message):
        """Applies a message and records its place, both or neither."""
        with self.database:
            self.database.execute("BEGIN IMMEDIATE")
            for record in message["data"].get("schema", []):
                self.note(record)
            count = 0
            for change in message["data"]["changes"]:
                if change["entity"] == self.entity:
                    self.change(change)
                    count += 1
            self.database.execute("DELETE FROM tidings_place")
            place = (message["store"], message["epoch"], int(message["sequence"]), message["nonce"])
            self.database.execute("INSERT INTO tidings_place VALUES (?, ?, ?, ?)", place)
        return count

    def note(self, record):
        """Tracking may begin, of a table that is empty by what the messages tell. Nothing else can be followed."""
        if record["entity"] != self.entity:
            return
        if record["kind"] != "track" or self.exists():
            raise Insufficient(f"the table {self.entity} had a schema record '{record['kind']}'")
        self.database.execute(f"CREATE TABLE {self.name}({', '.join(map(quoted, record['columns']))})")

    def change(self, change):
        where, keys = self.row(change)
        if change["op"] == "insert":
            names, marks, values = bind(change["after"])
            sql = f"INSERT INTO {self.name}({', '.join(names)}) VALUES ({', '.join(marks)})"
            keys = []
        elif change["op"] == "update":
            names, marks, values = bind(change["after"])
            assignments = ", ".join(f"{name} = {mark}" for name, mark in zip(names, marks))
            if not assignments:
                return  # Only redacted columns changed.
            sql = f"UPDATE {self.name} SET {assignments} WHERE {where}"
        else:
            values = []
            sql = f"DELETE FROM {self.name} WHERE {where}"
        changed = self.database.execute(sql, values + keys).rowcount
        if changed != 1:
            raise ValueError(f"{change['op']} of {self.entity} changed {changed} rows")

    def row(self, change):
        """The condition that finds the row, and what to bind to it."""
        if None not in change["key"].values() or not change["before"]:
            names, marks, values = bind(change["key"])
            return " AND ".join(f"{name} IS {mark}" for name, mark in zip(names, marks)), values
        # Several rows may have NULL in their key: any one that is like this one altogether.
        names, marks, values = bind(change["before"])
        test = " AND ".join(
            f"{name} IS {mark} AND typeof({name}) = typeof({mark})" for name, mark in zip(names, marks)
        )
        doubled = [value for value in values for _ in range(2)]
        return f"rowid = (SELECT rowid FROM {self.name} WHERE {test} LIMIT 1)", doubled


class Rebuilder:
    """Puts messages in order, once each, and gives them to the table."""

    def __init__(self, table, validator):
        self.table = table
        self.validator = validator
        self.early = {}
        self.counts = {"messages": 0, "duplicates": 0, "transactions": 0, "changes": 0}

    def sequence(self):
        place = self.table.place()
        return place[2] if place else 0

    def take(self, properties, body):
        self.counts["messages"] += 1
        message = parse(body)
        self.validator.validate(message)
        if message["id"] != properties.message_id:
            raise ValueError("the message's id is not its AMQP message_id")
        if message["id"] != f"{message['store']}:{message['epoch']}:{int(message['sequence'])}":
            raise ValueError("the message's id is not <store>:<epoch>:<sequence>")
        sequence = int(message["sequence"])
        if sequence <= self.sequence() or sequence in self.early:
            self.counts["duplicates"] += 1
            return
        if len(self.early) >= MOST_EARLY:
            raise Insufficient(f"the message of transaction {self.sequence() + 1} does not come")
        self.early[sequence] = message
        while (following := self.early.pop(self.sequence() + 1, None)) is not None:
            self.apply(following)

    def apply(self, message):
        place = self.table.place()
        if place is not None:
            if place[:2] != (message["store"], message["epoch"]) or place[3] != message.get("previousnonce"):
                raise Insufficient(f"transaction {int(message['sequence'])} does not follow the one before")
        if message.get("omitted"):
            raise Insufficient(f"the changes of transaction {int(message['sequence'])} were omitted")
        self.counts["changes"] += self.table.apply(message)
        self.counts["transactions"] += 1


def validate_files(schema, paths):
    """Checks files against the schema; for those who write messages."""
    validator = jsonschema.Draft202012Validator(schema)
    for path in paths:
        with open(path, "rb") as file:
            validator.validate(parse(file.read()))
        print(path)


def consume(rebuilder, options):
    connection = pika.BlockingConnection(pika.URLParameters(options.url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=MOST_EARLY + 1)
    for method, properties, body in channel.consume(options.queue, inactivity_timeout=options.timeout):
        if method is None:
            return 4
        rebuilder.take(properties, body)
        # What waits for an earlier message is acknowledged with that: after a crash it comes again.
        if not rebuilder.early:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if rebuilder.sequence() >= options.through:
            break
    channel.cancel()
    connection.close()
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schema", required=True, help="the JSON Schema of the messages")
    parser.add_argument("--url", help="the broker: amqp://user:password@host:port/vhost")
    parser.add_argument("--queue", help="the queue to consume")
    parser.add_argument("--entity", help="the table to rebuild")
    parser.add_argument("--database", help="the SQLite file to rebuild it in; made where there is none")
    parser.add_argument("--through", type=int, help="the sequence of the last transaction to apply")
    parser.add_argument("--timeout", type=float, default=60, help="how many seconds to wait for a message (60)")
    parser.add_argument("--check", nargs="+", metavar="FILE", help="only check these files against the schema")
    options = parser.parse_args()
    with open(options.schema, "rb") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    if options.check:
        validate_files(schema, options.check)
        return 0
    for name in ("url", "queue", "entity", "database", "through"):
        if getattr(options, name) is None:
            parser.error(f"--{name} is missing")
    database = sqlite3.connect(options.database, isolation_level=None)
    rebuilder = Rebuilder(Table(database, options.entity), jsonschema.Draft202012Validator(schema))
    try:
        code = consume(rebuilder, options)
    except Insufficient as error:
        print(f"rebuild: {error}: load the table from the store", file=sys.stderr)
        return 3
    except jsonschema.ValidationError as error:
        # Its own text shows the message, which may hold anything.
        print(f"rebuild: a message breaks the schema at {error.json_path}", file=sys.stderr)
        return 1
    finally:
        database.close()
    print(json.dumps(rebuilder.counts))
    return code


if __name__ == "__main__":
    sys.exit(main())
