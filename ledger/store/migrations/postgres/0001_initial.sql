-- Byte order everywhere, so that pages of both databases come in one order. No triggers, hence no
-- foreign keys, and no sequences: order comes from the row in heads alone.

-- who owns which log
CREATE TABLE tenants (
    tenant text COLLATE "C" NOT NULL,
    log bigint NOT NULL,
    key_index_secret bytea NOT NULL,
    created_us bigint NOT NULL,
    PRIMARY KEY (tenant)
);
CREATE UNIQUE INDEX tenants_log ON tenants (log);

-- one row a log: the only order
CREATE TABLE heads (
    log bigint NOT NULL,
    origin text COLLATE "C" NOT NULL,
    size bigint NOT NULL CHECK (size >= 0),
    frontier bytea NOT NULL,
    time_us bigint NOT NULL,
    PRIMARY KEY (log)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX heads_origin ON heads (origin);

-- the log
CREATE TABLE entries (
    log bigint NOT NULL,
    idx bigint NOT NULL CHECK (idx >= 0),
    run text COLLATE "C" NOT NULL,
    version bigint NOT NULL CHECK (version >= 0),
    type text COLLATE "C" NOT NULL,
    entry bytea NOT NULL,
    leaf bytea NOT NULL CHECK (octet_length(leaf) = 32),
    PRIMARY KEY (log, idx)
);
CREATE UNIQUE INDEX entries_run_version ON entries (log, run, version);

-- tree tiles
CREATE TABLE tiles (
    log bigint NOT NULL,
    level bigint NOT NULL CHECK (level >= 0),
    idx bigint NOT NULL CHECK (idx >= 0),
    hashes bytea NOT NULL CHECK (octet_length(hashes) % 32 = 0),
    PRIMARY KEY (log, level, idx)
);

-- sealed payloads
CREATE TABLE payloads (
    log bigint NOT NULL,
    id bytea NOT NULL CHECK (octet_length(id) = 16),
    idx bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    media_type text COLLATE "C" NOT NULL,
    sealed bytea NOT NULL,
    PRIMARY KEY (log, id)
);

-- wrapped data keys
CREATE TABLE data_keys (
    key_id text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    wrapped bytea NOT NULL,
    open bigint NOT NULL CHECK (open IN (0, 1)),
    destroyed_idx bigint,
    PRIMARY KEY (key_id)
);
CREATE UNIQUE INDEX data_keys_one_open ON data_keys (tenant, owner) WHERE open = 1;
CREATE INDEX data_keys_owner ON data_keys (tenant, owner, open);

-- the data subject of a run
CREATE TABLE subjects (
    tenant text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, run)
);
CREATE INDEX subjects_subject ON subjects (tenant, subject, run);

-- every request that appended something
CREATE TABLE requests (
    tenant text COLLATE "C" NOT NULL,
    principal text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    method text COLLATE "C" NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    log bigint NOT NULL,
    first_idx bigint NOT NULL CHECK (first_idx >= 0),
    last_idx bigint NOT NULL CHECK (last_idx >= first_idx),
    entries bigint NOT NULL CHECK (entries > 0),
    leaf bytea NOT NULL CHECK (octet_length(leaf) = 32),
    recorded_us bigint NOT NULL,
    answer bytea NOT NULL,
    PRIMARY KEY (tenant, principal, request_id)
);

-- inline projection: folded runs
CREATE TABLE runs (
    tenant text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    log bigint NOT NULL,
    version bigint NOT NULL CHECK (version >= 0),
    idx bigint NOT NULL,
    leaf bytea NOT NULL CHECK (octet_length(leaf) = 32),
    status text COLLATE "C" NOT NULL,
    changed_us bigint NOT NULL,
    fold bytea NOT NULL,
    PRIMARY KEY (tenant, run)
);
CREATE INDEX runs_changed ON runs (tenant, changed_us, run);

-- inline projection: folded steps
CREATE TABLE steps (
    tenant text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    ordinal bigint NOT NULL CHECK (ordinal >= 0),
    step text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    changed_version bigint NOT NULL,
    fold bytea NOT NULL,
    PRIMARY KEY (tenant, run, ordinal)
);
-- While a table has no statistics, an index that begins like the primary key costs a planner as much
-- and may be taken for it, to read a whole run for one step. So the first begins otherwise, and the
-- second is partial, though every row is in it: only who asks for later versions may use it.
CREATE UNIQUE INDEX steps_step ON steps (run, step, tenant);
CREATE INDEX steps_changed ON steps (tenant, run, changed_version, ordinal)
WHERE changed_version IS NOT NULL;

-- inline projection: the newest lease of each run
CREATE TABLE leases (
    tenant text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    token bigint NOT NULL CHECK (token > 0),
    holder text COLLATE "C" NOT NULL,
    principal text COLLATE "C" NOT NULL,
    process text COLLATE "C" NOT NULL,
    expires_us bigint NOT NULL,
    ended text COLLATE "C" NOT NULL,
    due_us bigint,
    PRIMARY KEY (tenant, run)
);
CREATE INDEX leases_due ON leases (tenant, due_us, run) WHERE due_us IS NOT NULL;

-- inline projection: who holds a key
CREATE TABLE claims (
    tenant text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    idx bigint NOT NULL,
    fold bytea NOT NULL,
    PRIMARY KEY (tenant, tool, key)
);

-- inline projection: steps answered from a settled key
CREATE TABLE replays (
    tenant text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    idx bigint NOT NULL,
    PRIMARY KEY (tenant, tool, key, run, step)
);

-- inline projection: the class bound to a tool's version
CREATE TABLE tools (
    tenant text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    class text COLLATE "C" NOT NULL,
    allowed text COLLATE "C" NOT NULL,
    idx bigint NOT NULL,
    PRIMARY KEY (tenant, tool, version)
);

-- inline projection: what waits for a decision
CREATE TABLE unknowns (
    tenant text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    rank bigint NOT NULL,
    since_us bigint NOT NULL,
    idx bigint NOT NULL,
    fold bytea NOT NULL,
    PRIMARY KEY (tenant, run, step)
);
CREATE INDEX unknowns_rank ON unknowns (tenant, rank, since_us, run, step);

-- signed checkpoints as published
CREATE TABLE checkpoints (
    log bigint NOT NULL,
    size bigint NOT NULL CHECK (size >= 0),
    note text COLLATE "C" NOT NULL,
    created_us bigint NOT NULL,
    PRIMARY KEY (log, size)
);

-- Hashes and ciphertext do not compress; trying costs time under the head's lock.
ALTER TABLE tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;
ALTER TABLE payloads ALTER COLUMN sealed SET STORAGE EXTERNAL;
