import type { Step } from "../MigrationStep.ts"

type Steps = ReadonlyArray<Step>

/** A key column cannot be null: an empty `credential` stands for all credentials of the provider, an empty `model` for all models. */
export const credentials: Steps = [
  `create table if not exists credentials_state (
    provider text collate "C" not null,
    credential text collate "C" not null,
    model text collate "C" not null,
    reason text,
    until timestamptz,
    failures int not null default 0,
    last_used_at timestamptz,
    primary key (provider, credential, model)
  )`,
  `create table if not exists session_credentials (
    session_id text collate "C" not null references sessions on delete cascade,
    provider text collate "C" not null,
    credential text collate "C" not null,
    primary key (session_id, provider)
  )`
]

/** Generates the id of the gateway, once for all replicas. The ordinal of tasks is the order in which they started. */
export const peers: Steps = [
  `create table if not exists gateway (
    id text primary key,
    is_only boolean not null unique default true check (is_only)
  )`,
  `insert into gateway (id) values (gen_random_uuid()::text) on conflict do nothing`,
  `alter table plans add column if not exists route json`,
  `alter table tasks
    add column if not exists endpoint text,
    add column if not exists ordinal bigint not null generated always as identity`
]

/**
 * `reverted_count` counts the reverted messages among the `last_seq` that were ever written. `covered_priors` is the `seq` of the last
 * entry of `prior_summaries` that the summary includes. `deleted_plans` lists plans whose events are still to be purged. Messages
 * have no foreign key to plans: it would make the deletion of a plan search all messages, and they are deleted with the session.
 */
export const sessions: Steps = [
  `alter table sessions
    add column if not exists reverted_count int not null default 0,
    add column if not exists covered_priors int not null default 0`,
  { index: "sessions_expiry", on: "sessions (expires_at)" },
  `create table if not exists prior_summaries (
    session_id text collate "C" not null references sessions on delete cascade,
    seq int not null,
    summary text not null,
    primary key (session_id, seq)
  )`,
  `alter table tasks add column if not exists reverted boolean not null default false`,
  `alter table messages drop constraint if exists messages_plan_id_fkey`,
  `create table if not exists deleted_plans (id text collate "C" primary key)`
]

/** The transaction takes a key before it inserts the plan, so the foreign key is checked at the end of the transaction. */
export const idempotency: Steps = [
  `create table if not exists idempotency (
    owner text not null,
    key text collate "C" not null,
    body text collate "C" not null,
    plan_id text collate "C" not null unique references plans on delete cascade deferrable initially deferred,
    expires_at timestamptz(3) not null,
    primary key (owner, key)
  )`,
  `create index if not exists idempotency_expiry on idempotency (expires_at)`
]

/**
 * What the next process needs to resume a plan. `request` and the encrypted `request_secrets` are kept until the plan is over; a
 * plan of an earlier version has none. `handed_over` means that the next take-over does not count as a death.
 */
export const recovery: Steps = [
  `alter table plans
    add column if not exists request json,
    add column if not exists request_secrets text,
    add column if not exists deaths int not null default 0,
    add column if not exists handed_over boolean not null default false`
]

/** A plan of an earlier version has an empty question: the messages of its session have it. */
export const questions: Steps = [`alter table plans add column if not exists question text not null default ''`]

/** The preset that the request named: null if it named none, or an earlier version stored the plan. */
export const presets: Steps = [`alter table plans add column if not exists preset text`]

/** What the protocol in which the caller asked repeats of the request later: null if it repeats nothing. */
export const echoes: Steps = [`alter table plans add column if not exists echo json`]

/** The message of an A2A client that asked, and the first plan of the task that it continues. */
export const tasks: Steps = [
  `alter table plans
    add column if not exists task_id text collate "C",
    add column if not exists task_message json`,
  { index: "plans_of_task", on: "plans (task_id) where task_id is not null" }
]

/**
 * The places that are notified about a task, which `task_id` is the first plan of. They were notified of `plan` plans in full, and of the
 * next one up to `seq`. The replica notifies them, under the fence. After `is_over` nothing comes any more.
 */
export const pushTargets: Steps = [
  `create table if not exists push_targets (
    task_id text collate "C" not null references plans on delete cascade,
    id text collate "C" not null,
    ordinal bigint not null generated always as identity,
    owner text not null,
    url text not null,
    wire text not null,
    scheme text,
    secrets text,
    replica text collate "C" not null,
    fence int not null default 1,
    plan int not null,
    seq int not null,
    failing_since timestamptz(3),
    is_over boolean not null default false,
    primary key (task_id, id)
  )`,
  `create index if not exists push_targets_due on push_targets (ordinal) where not is_over`
]

/** Without a `decision` the call waits, as long as its plan is not over. */
export const approvals: Steps = [
  `create table if not exists approvals (
    plan_id text collate "C" not null references plans on delete cascade,
    task_id text collate "C" not null,
    ordinal bigint not null generated always as identity,
    tool text not null,
    input json not null,
    why text not null,
    decision text,
    note text,
    decided_by text,
    primary key (plan_id, task_id)
  )`
]

/** What callers have used by day. Nothing references it: to delete a session does not give back what its plans have used. */
export const spendings: Steps = [
  `create table if not exists spendings (
    owner text not null,
    day date not null,
    replica text collate "C" not null,
    tokens bigint not null,
    tool_calls bigint not null,
    primary key (owner, day, replica)
  )`,
  `create index if not exists spendings_day on spendings (day)`
]

/**
 * The digests by which callers know the tools of MCP servers, by the digest of URL and name. The approval of a call of a changed tool has the
 * digest and the tool that it makes known; a `tool_digest` alone only says what the call is about.
 */
export const knownTools: Steps = [
  `create table if not exists known_tools (
    owner text not null,
    tool text collate "C" not null,
    digest text not null,
    expires_at timestamptz(3) not null,
    primary key (owner, tool)
  )`,
  `create index if not exists known_tools_expiry on known_tools (expires_at)`,
  `alter table approvals
    add column if not exists tool_digest text,
    add column if not exists known_tool text`
]

/**
 * How many requests of callers count now, and until when. `refused` says whether the last one did not count. After a crash of the server
 * the table is empty: nobody waits for a count to be on the disk.
 */
export const rateLimits: Steps = [
  `create unlogged table if not exists rate_limits (
    key text collate "C" primary key,
    count bigint not null,
    expires_at timestamptz not null,
    refused boolean not null default false
  )`
]

/** When the task was cancelled that waited for its client, behind its last plan. */
export const cancelledTasks: Steps = [`alter table plans add column if not exists task_cancelled_at timestamptz(3)`]

/** How long a session is kept after its last plan, if that is shorter than for others. */
export const sessionTtl: Steps = [`alter table sessions add column if not exists ttl_ms bigint`]

/**
 * What a console shows of a plan. An event has the time of its write; the default is for replicas of the version before. A plan of an earlier
 * version has no cost, and no retries. Its code is cut out of the text: Postgres cannot read into a document that contains an escaped NUL.
 */
export const planFacts: Steps = [
  `alter table events add column if not exists at timestamptz(3)`,
  `alter table events alter column at set default clock_timestamp()`,
  `alter table plans
    add column if not exists retries int not null default 0,
    add column if not exists cost_usd float8,
    add column if not exists error_code text`,
  `alter table approvals add column if not exists agent text`,
  {
    backfill: "plans",
    set: `error_code = substring(error::text from '^\\{"code":"([^"\\\\]*)"')`,
    where: "error is not null and error_code is null"
  },
  { index: "plans_newest_by_error", on: "plans (owner, error_code, ordinal) where error_code is not null" }
]

/** The logins of the console, by digests that neither tell their cookies nor the keys of their callers. */
export const logins: Steps = [
  `create table if not exists logins (
    digest text collate "C" primary key,
    expires_at timestamptz(3) not null
  )`,
  `create index if not exists logins_expiry on logins (expires_at)`
]

/** When a plan has to be over, by the clock of the database. A plan that an earlier version has stored has no such time. */
export const planEnds: Steps = [`alter table plans add column if not exists ends_at timestamptz(3)`]

/**
 * To which key a window belongs, by a digest that does not lead to it, since when it is open, and when the key last succeeded. Where an earlier
 * version has written a row, none of them is known.
 */
export const credentialKeys: Steps = [
  `alter table credentials_state
    add column if not exists key_digest text,
    add column if not exists opened_at timestamptz,
    add column if not exists succeeded_at timestamptz`
]

/** What a plan has come to. Of a plan that an earlier version has stored its events tell. */
export const gists: Steps = [`alter table plans add column if not exists gist json`]

/**
 * When the first text of a plan came, and what the overview and the lists look plans and calls up by. Nothing of the rows that are written again and
 * again is in these indexes: a write of progress touches none of them.
 */
export const overview: Steps = [
  `alter table plans add column if not exists first_token_at timestamptz(3)`,
  { index: "plans_by_time", on: "plans (created_at)" },
  { index: "plans_of_owner_by_time", on: "plans (owner, created_at)" },
  { index: "tasks_by_time", on: "tasks (started_at)" }
]

/**
 * What the filters of lists look plans up by. The entries of the metadata are the texts that they have in the document, such as `"a":"b"`: Postgres
 * cannot read into one that contains an escaped NUL. Their index has all plans: of one that has only some, Postgres does not use the statistics.
 */
export const filters: Steps = [
  `create or replace function bowline_entries(metadata json) returns text[] language sql immutable parallel safe
  as $$ select array(select m[1] || ':' || m[2] from regexp_matches(metadata::text, '("(?:[^"\\\\]|\\\\.)*")\\s*:\\s*("(?:[^"\\\\]|\\\\.)*")', 'g') m) $$`,
  { index: "plans_newest_of_all", on: "plans (ordinal)" },
  { index: "plans_by_metadata", on: "plans using gin (bowline_entries(metadata))" },
  { index: "tasks_of_tool", on: "tasks (tool, plan_id)" },
  { index: "tasks_of_agent", on: "tasks (agent, plan_id) where agent is not null" }
]

/**
 * What is said to plans after their start. `told` is the state that readers of the plan have seen. The count of a plan grows with each
 * entry that is accepted or withdrawn, and with each wait whose time ends.
 */
export const inboxes: Steps = [
  `create table if not exists inbox (
    id text collate "C" primary key,
    plan_id text collate "C" not null references plans on delete cascade,
    ordinal bigint not null generated always as identity,
    type text not null,
    author text not null,
    at timestamptz(3) not null default clock_timestamp(),
    entry json not null,
    characters int not null,
    task_id text collate "C",
    round int,
    state text not null,
    told text,
    step int,
    moved_to text collate "C"
  )`,
  `create index if not exists inbox_of_plan on inbox (plan_id, ordinal)`,
  `create index if not exists inbox_moved on inbox (moved_to) where moved_to is not null`,
  `alter table plans add column if not exists inbox_count int not null default 0`
]

/**
 * What calls wait for: an approval is one kind of it. A call has one wait at a time. The version before reads and writes its approvals through the
 * view of their former name.
 */
export const waits: Steps = [
  `do $$ begin
    if to_regclass('waits') is null then
      alter table approvals rename to waits;
      alter table waits alter column why drop not null;
      alter table waits
        add column kind text not null default 'approval',
        add column round int not null default 1,
        add column schema json,
        add column message text,
        add column data json,
        add column url text,
        add column since timestamptz(3) not null default now(),
        add column expires_at timestamptz(3),
        add column is_expired boolean not null default false,
        add column settled_by text collate "C",
        add column remember text;
      create view approvals as
        select plan_id, task_id, ordinal, tool, input, why, decision, note, decided_by, tool_digest, known_tool, agent
        from waits where kind = 'approval';
    end if;
  end $$`
]

/**
 * Parked plans: how much time one has left, and what has woken it. The oldest living replica ends the waits whose time is over. A replica of the
 * version before does not say that it `parks`.
 */
export const parking: Steps = [
  `alter table plans
    add column if not exists left_ms bigint,
    add column if not exists woken_by text`,
  `alter table replicas
    add column if not exists since timestamptz not null default now(),
    add column if not exists parks boolean not null default false`,
  { index: "plans_not_over", on: "plans (session_id) where state in ('queued', 'running', 'waiting')" },
  { index: "waits_open", on: "waits (expires_at) where settled_by is null and decision is null and not is_expired" }
]

/** What sessions are listed by. A commit that begins or ends a plan writes the row's other indexes anyway. */
export const recentSessions: Steps = [
  { index: "sessions_by_activity", on: "sessions (owner, last_active_at, ordinal)" }
]

/** A client names a call that waits, without its plan. */
export const calls: Steps = [{ index: "waits_of_task", on: "waits (task_id)" }]

/** By what a tool knows the question of its call again. The version before asks no questions. */
export const marks: Steps = [`alter table waits add column if not exists mark text`]

/**
 * The events of plans that are over: compressed blocks in `body`, with the last seq of each and where it ends. A plan lies in the partition of the week in
 * which it ended. What is compressed is not compressed again, so that one block can be read. A replica of the version before does not say that it `seals`.
 */
export const sealed: Steps = [
  `create table if not exists sealed (
    plan_id text collate "C" not null,
    ended_at timestamptz(3) not null,
    codec text not null,
    last_seqs int[] not null,
    ends int[] not null,
    body bytea not null,
    primary key (plan_id, ended_at)
  ) partition by range (ended_at)`,
  `alter table sealed alter column body set storage external`,
  `alter table replicas add column if not exists seals boolean not null default false`
]

/** A replica of the version before does not say that it can read plans whose first events are sealed while the next ones are not. */
export const sealedWaits: Steps = [
  `alter table replicas add column if not exists seals_waits boolean not null default false`
]

/** How much of its own time a call had used when it began to wait. Nobody knows that of a wait that the version before has opened. */
export const callTimes: Steps = [`alter table waits add column if not exists spent_ms int`]

/** When a wait ends, by the database's clock. Of a wait that the version before has opened, `expires_at` says it, by the clock of its replica. */
export const waitEnds: Steps = [
  `alter table waits add column if not exists ends_at timestamptz`,
  {
    index: "waits_due",
    on: "waits ((coalesce(ends_at, expires_at))) where settled_by is null and decision is null and not is_expired"
  }
]

/** The tools that the client has from the next step on, which came with an entry. */
export const entryTools: Steps = [`alter table inbox add column if not exists tools json`]

/** On which channel a replica alone is told, and for which sessions it waits. That of a replica which has not renewed yet is empty; one of the version before has none. */
export const channels: Steps = [
  `alter table replicas
    add column if not exists channel text,
    add column if not exists waits_for text[] collate "C" not null default '{}'`
]

/** By what a take-over finds plans that may be abandoned, without those that are well: see `TakeOverPlans`. */
export const takeOvers: Steps = [
  { index: "leases_by_end", on: "leases (expires_at)" },
  { index: "plans_handed_over", on: "plans (id) where handed_over and state in ('queued', 'running')" },
  { index: "plans_queued", on: "plans (replica) where state = 'queued'" }
]

/** Whose effects are: the key is a digest. No foreign key: an effect of a caller outlives the session that made it. */
export const effects: Steps = [
  `create table if not exists effects (
    owner text not null,
    key text collate "C" not null,
    task_id text collate "C" not null,
    plan_id text collate "C" not null,
    tool text not null,
    state text not null,
    claimed_at timestamptz(3) not null,
    expires_at timestamptz(3) not null,
    follows text collate "C",
    primary key (owner, key)
  )`,
  `create index if not exists effects_of_task on effects (task_id)`,
  `create index if not exists effects_expiry on effects (expires_at)`
]

/**
 * Webhooks are places to notify that the version before takes for over: no replica reads their plans. A commit that ends a plan, or opens a wait, adds their
 * deliveries.
 */
export const webhooks: Steps = [
  `alter table push_targets
    add column if not exists events text[],
    add column if not exists webhook json`,
  `create table if not exists deliveries (
    task_id text collate "C" not null,
    target text collate "C" not null,
    ordinal bigint not null generated always as identity,
    event text not null,
    at timestamptz(3) not null,
    wait json,
    state text not null default 'pending',
    tries int not null default 0,
    last_status int,
    failing_since timestamptz(3),
    next_try_at timestamptz(3) not null default now(),
    primary key (task_id, target, ordinal),
    foreign key (task_id, target) references push_targets on delete cascade
  )`,
  `create index if not exists deliveries_due on deliveries (next_try_at) where state = 'pending'`
]

/** What the effects of a caller are listed by. */
export const effectLists: Steps = [{ index: "effects_of_owner", on: "effects (owner, claimed_at)" }]

/**
 * The keys that admins have made, by digests that do not lead to them, with which of them the caller of a plan came, and for whom a login stands, encrypted
 * with what only its cookie has.
 */
export const callerKeys: Steps = [
  `create table if not exists caller_keys (
    id text collate "C" primary key,
    ordinal bigint not null generated always as identity,
    digest text collate "C" not null unique,
    name text not null,
    admin boolean not null,
    note text,
    created_by text not null,
    created_at timestamptz(3) not null,
    last_used_at timestamptz(3),
    expires_at timestamptz(3)
  )`,
  `alter table plans add column if not exists key_id text collate "C"`,
  `alter table logins add column if not exists subject text`
]

/** What callers say of plans: one row of each. The one with the highest number was given last. */
export const feedback: Steps = [
  `create table if not exists feedback (
    plan_id text collate "C" not null references plans on delete cascade,
    caller text not null,
    ordinal bigint not null generated always as identity,
    score float8 not null,
    comment text,
    labels text[] not null,
    at timestamptz(3) not null,
    primary key (plan_id, caller)
  )`
]

/**
 * What callers have used by day, model and preset. Without a preset it is empty, as the replica is of rows that were added up. Nothing references it: to
 * delete a session does not give back what its plans have used. The version before charges `spendings`.
 */
export const charges: Steps = [
  `create table if not exists charges (
    owner text not null,
    day date not null,
    model text not null,
    preset text not null,
    replica text collate "C" not null,
    plans bigint not null,
    tool_calls bigint not null,
    input_tokens bigint not null,
    cached_input_tokens bigint not null,
    output_tokens bigint not null,
    cost_usd numeric not null,
    unpriced bigint not null,
    primary key (owner, day, model, preset, replica)
  )`,
  `create index if not exists charges_day on charges (day)`,
  `create index if not exists charges_of_replicas on charges (day) where replica <> ''`
]

/** What is recorded of plans beside what readers get, and texts of the operator that records name by their digests. */
export const records: Steps = [
  `alter table events add column if not exists record text`,
  `create table if not exists texts (
    digest text collate "C" primary key,
    text text not null
  )`
]

/** What callers have given to a session; null where they have given nothing. */
export const sessionMetadata: Steps = [`alter table sessions add column if not exists metadata json`]

/** The newest codec of sealed rows that a replica reads. One of the version before does not say that it reads any but the first. */
export const readCodecs: Steps = [`alter table replicas add column if not exists codec int not null default 1`]

/** What waits at all callers, the oldest first. */
export const waitsByAge: Steps = [
  { index: "waits_by_age", on: "waits (ordinal) where settled_by is null and decision is null and not is_expired" }
]
