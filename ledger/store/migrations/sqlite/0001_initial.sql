-- Strict tables: SQLite keeps the kinds. Rows that stay well below a page live in the tree of their
-- key (WITHOUT ROWID); longer ones would fill its inner pages and get a rowid.

-- who owns which log
CREATE TABLE tenants (
    tenant TEXT NOT NULL,
    log INTEGER NOT NULL,
    key_index_secret BLOB NOT NULL,
    created_us INTEGER NOT NULL,
    PRIMARY KEY (tenant)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tenants_log ON tenants (log);

-- one row a log: the only order
CREATE TABLE heads (
    log INTEGER NOT NULL,
    origin TEXT NOT NULL,
    size INTEGER NOT NULL CHECK (size >= 0),
    frontier BLOB NOT NULL,
    time_us INTEGER NOT NULL,
    PRIMARY KEY (log)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX heads_origin ON heads (origin);

-- the log
CREATE TABLE entries (
    log INTEGER NOT NULL,
    idx INTEGER NOT NULL CHECK (idx >= 0),
    run TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 0),
    type TEXT NOT NULL,
    entry BLOB NOT NULL,
    leaf BLOB NOT NULL CHECK (length(leaf) = 32),
    PRIMARY KEY (log, idx)
) STRICT;
CREATE UNIQUE INDEX entries_run_version ON entries (log, run, version);

-- tree tiles
CREATE TABLE tiles (
    log INTEGER NOT NULL,
    level INTEGER NOT NULL CHECK (level >= 0),
    idx INTEGER NOT NULL CHECK (idx >= 0),
    hashes BLOB NOT NULL CHECK (length(hashes) % 32 = 0),
    PRIMARY KEY (log, level, idx)
) STRICT;

-- sealed payloads
CREATE TABLE payloads (
    log INTEGER NOT NULL,
    id BLOB NOT NULL CHECK (length(id) = 16),
    idx INTEGER NOT NULL,
    name TEXT NOT NULL,
    key_id TEXT NOT NULL,
    media_type TEXT NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (log, id)
) STRICT;

-- wrapped data keys
CREATE TABLE data_keys (
    key_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    owner TEXT NOT NULL,
    wrapped BLOB NOT NULL,
    open INTEGER NOT NULL CHECK (open IN (0, 1)),
    destroyed_idx INTEGER,
    PRIMARY KEY (key_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX data_keys_one_open ON data_keys (tenant, owner) WHERE open = 1;
CREATE INDEX data_keys_owner ON data_keys (tenant, owner, open);

-- the data subject of a run
CREATE TABLE subjects (
    tenant TEXT NOT NULL,
    run TEXT NOT NULL,
    subject TEXT NOT NULL,
    PRIMARY KEY (tenant, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX subjects_subject ON subjects (tenant, subject, run);

-- every request that appended something
CREATE TABLE requests (
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    request_id TEXT NOT NULL,
    method TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    log INTEGER NOT NULL,
    first_idx INTEGER NOT NULL CHECK (first_idx >= 0),
    last_idx INTEGER NOT NULL CHECK (last_idx >= first_idx),
    entries INTEGER NOT NULL CHECK (entries > 0),
    leaf BLOB NOT NULL CHECK (length(leaf) = 32),
    recorded_us INTEGER NOT NULL,
    answer BLOB NOT NULL,
    PRIMARY KEY (tenant, principal, request_id)
) STRICT;

-- inline projection: folded runs
CREATE TABLE runs (
    tenant TEXT NOT NULL,
    run TEXT NOT NULL,
    log INTEGER NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 0),
    idx INTEGER NOT NULL,
    leaf BLOB NOT NULL CHECK (length(leaf) = 32),
    status TEXT NOT NULL,
    changed_us INTEGER NOT NULL,
    fold BLOB NOT NULL,
    PRIMARY KEY (tenant, run)
) STRICT;
CREATE INDEX runs_changed ON runs (tenant, changed_us, run);

-- inline projection: folded steps
CREATE TABLE steps (
    tenant TEXT NOT NULL,
    run TEXT NOT NULL,
    ordinal INTEGER NOT NULL CHECK (ordinal >= 0),
    step TEXT NOT NULL,
    state TEXT NOT NULL,
    changed_version INTEGER NOT NULL,
    fold BLOB NOT NULL,
    PRIMARY KEY (tenant, run, ordinal)
) STRICT;
CREATE UNIQUE INDEX steps_step ON steps (tenant, run, step);
CREATE INDEX steps_changed ON steps (tenant, run, changed_version, ordinal);

-- inline projection: the newest lease of each run
CREATE TABLE leases (
    tenant TEXT NOT NULL,
    run TEXT NOT NULL,
    token INTEGER NOT NULL CHECK (token > 0),
    holder TEXT NOT NULL,
    principal TEXT NOT NULL,
    process TEXT NOT NULL,
    expires_us INTEGER NOT NULL,
    ended TEXT NOT NULL,
    due_us INTEGER,
    PRIMARY KEY (tenant, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX leases_due ON leases (tenant, due_us, run) WHERE due_us IS NOT NULL;

-- inline projection: who holds a key
CREATE TABLE claims (
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    key TEXT NOT NULL,
    run TEXT NOT NULL,
    step TEXT NOT NULL,
    state TEXT NOT NULL,
    idx INTEGER NOT NULL,
    fold BLOB NOT NULL,
    PRIMARY KEY (tenant, tool, key)
) STRICT;

-- inline projection: steps answered from a settled key
CREATE TABLE replays (
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    key TEXT NOT NULL,
    run TEXT NOT NULL,
    step TEXT NOT NULL,
    idx INTEGER NOT NULL,
    PRIMARY KEY (tenant, tool, key, run, step)
) STRICT, WITHOUT ROWID;

-- inline projection: the class bound to a tool's version
CREATE TABLE tools (
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    version TEXT NOT NULL,
    class TEXT NOT NULL,
    allowed TEXT NOT NULL,
    idx INTEGER NOT NULL,
    PRIMARY KEY (tenant, tool, version)
) STRICT, WITHOUT ROWID;

-- inline projection: what waits for a decision
CREATE TABLE unknowns (
    tenant TEXT NOT NULL,
    run TEXT NOT NULL,
    step TEXT NOT NULL,
    rank INTEGER NOT NULL,
    since_us INTEGER NOT NULL,
    idx INTEGER NOT NULL,
    fold BLOB NOT NULL,
    PRIMARY KEY (tenant, run, step)
) STRICT;
CREATE INDEX unknowns_rank ON unknowns (tenant, rank, since_us, run, step);

-- signed checkpoints as published
CREATE TABLE checkpoints (
    log INTEGER NOT NULL,
    size INTEGER NOT NULL CHECK (size >= 0),
    note TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    PRIMARY KEY (log, size)
) STRICT, WITHOUT ROWID;
