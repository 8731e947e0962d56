import type { Step } from "../MigrationStep.ts"

/**
 * When plans start by themselves. `next_at` is the next due time, `look_at` when somebody is to look at the schedule: later than that where it waits. `claimed_until` is how long
 * a replica has it for itself. There is one firing of a due time: it is written with its plan, which is no foreign key, since a firing outlives it.
 */
export const schedules: ReadonlyArray<Step> = [
  `create table if not exists schedules (
    id text collate "C" primary key,
    ordinal bigint not null generated always as identity,
    owner text not null,
    name text not null,
    calendar json not null,
    plan json not null,
    overlap text not null,
    catch_up text not null,
    paused boolean not null,
    version int not null default 1,
    created_at timestamptz(3) not null default now(),
    next_at timestamptz(3),
    look_at timestamptz(3),
    claimed_until timestamptz(3),
    catch_left int not null default 0,
    catch_until timestamptz(3),
    last_at timestamptz(3),
    last_plan_id text collate "C",
    open_plans text[] collate "C" not null default '{}',
    failures int not null default 0,
    unique (owner, name)
  )`,
  `create index if not exists schedules_of_owner on schedules (owner, ordinal)`,
  `create index if not exists schedules_due on schedules (look_at) where look_at is not null`,
  `create table if not exists firings (
    schedule_id text collate "C" not null references schedules on delete cascade,
    due_at timestamptz(3) not null,
    fired_at timestamptz(3) not null default now(),
    plan_id text collate "C",
    outcome text not null,
    reason text,
    primary key (schedule_id, due_at)
  )`,
  `create index if not exists firings_expiry on firings (fired_at)`
]
