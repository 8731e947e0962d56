import type { Step } from "../MigrationStep.ts"

/**
 * Ids sort and compare as bytes (`collate "C"`). Documents are `json`, not `jsonb`: Postgres returns their text as it was written,
 * and accepts an escaped NUL, which models and peers do send. An ordinal is the order of creation, for pages newest first.
 */
export const initial: ReadonlyArray<Step> = [
  `create table if not exists sessions (
    id text collate "C" primary key,
    ordinal bigint not null generated always as identity,
    owner text not null,
    external_id text collate "C",
    fence int not null default 0,
    summary text,
    covered_seq int not null default 0,
    last_seq int not null default 0,
    created_at timestamptz(3) not null,
    last_active_at timestamptz(3) not null,
    expires_at timestamptz(3) not null,
    unique (owner, external_id)
  )`,
  `create index if not exists sessions_newest on sessions (owner, ordinal)`,

  `create table if not exists session_agents (
    session_id text collate "C" not null references sessions on delete cascade,
    name text collate "C" not null,
    ordinal bigint not null generated always as identity,
    agent json not null,
    primary key (session_id, name)
  )`,

  `create table if not exists plans (
    id text collate "C" primary key,
    ordinal bigint not null generated always as identity,
    session_id text collate "C" not null references sessions on delete cascade,
    owner text not null,
    replica text collate "C" not null,
    fence int not null default 0,
    state text not null default 'queued',
    stage text default 'queue',
    model text not null,
    question_hash text not null,
    preferences json not null,
    metadata json not null,
    abort_requested text,
    steps int not null default 0,
    tool_calls int not null default 0,
    usage json not null,
    final json,
    error json,
    created_at timestamptz(3) not null,
    deadline_at timestamptz(3) not null,
    finished_at timestamptz(3)
  )`,
  `create index if not exists plans_newest on plans (owner, ordinal)`,
  `create index if not exists plans_newest_by_state on plans (owner, state, ordinal)`,
  `create index if not exists plans_newest_of_session on plans (session_id, ordinal)`,
  `create index if not exists plans_open on plans (session_id, state) where state in ('queued', 'running')`,

  `create table if not exists messages (
    session_id text collate "C" not null references sessions on delete cascade,
    seq int not null,
    id text collate "C" not null unique,
    plan_id text collate "C" not null references plans on delete cascade,
    role text not null,
    parts json not null,
    created_at timestamptz(3) not null,
    compacted_by text,
    reverted boolean not null default false,
    primary key (session_id, seq)
  )`,
  // The cost of reading a prompt does not grow with the messages that were compacted.
  `create index if not exists messages_in_prompt on messages (session_id, seq) where compacted_by is null and not reverted`,

  `create table if not exists tasks (
    plan_id text collate "C" not null references plans on delete cascade,
    id text collate "C" not null,
    tool text not null,
    kind text not null,
    agent text,
    skill text,
    input json not null,
    state text not null,
    remote_task_id text,
    remote_context_id text,
    result text,
    error json,
    started_at timestamptz(3) not null,
    finished_at timestamptz(3),
    primary key (plan_id, id)
  )`,

  // No foreign key: Postgres would check it for each row of the busiest table, and the guard of the write has locked the plan.
  `create table if not exists events (
    plan_id text collate "C" not null,
    seq int not null,
    count int not null,
    event text not null,
    payload text not null,
    primary key (plan_id, seq)
  )`,

  `create table if not exists leases (
    session_id text collate "C" primary key references sessions on delete cascade,
    replica text collate "C" not null,
    fence int not null,
    expires_at timestamptz not null
  )`,
  `create index if not exists leases_of_replica on leases (replica)`,

  `create table if not exists replicas (
    id text collate "C" primary key,
    expires_at timestamptz not null
  )`
]
