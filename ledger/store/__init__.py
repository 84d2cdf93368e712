"""Durable tables behind the ledger: one interface, kept on SQLite and on PostgreSQL.

`interface` is the contract in prose and types; `tables` names every table and column once; `sqlite`
and `postgres` keep the contract; `migrations` holds the numbered plain SQL that makes the tables.
"""
