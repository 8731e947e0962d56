import type { Step } from "../MigrationStep.ts"

/**
 * Files of callers. An upload is a row without a digest, so that the sweeper finds what a dead process has left; `bytes` are those that have come. Chunks have no foreign key: a file is hidden first, and
 * they are deleted bit by bit. Nothing in them can be compressed.
 */
export const files: ReadonlyArray<Step> = [
  `create table if not exists files (
    id text collate "C" primary key,
    ordinal bigint not null generated always as identity,
    owner text not null,
    state text not null,
    name text not null default '',
    media_type text not null default '',
    bytes bigint not null default 0,
    sha256 text collate "C",
    width int,
    height int,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null
  )`,
  `create unique index if not exists files_of_digest on files (owner, sha256) where state = 'kept'`,
  `create index if not exists files_of_owner on files (owner, ordinal) where state = 'kept'`,
  `create index if not exists files_expiry on files (expires_at)`,
  `create table if not exists file_chunks (
    file_id text collate "C" not null,
    seq int not null,
    data bytea not null,
    primary key (file_id, seq)
  )`,
  `alter table file_chunks alter column data set storage external`
]

/** What a client of OpenAI says of a file. */
export const filePurposes: ReadonlyArray<Step> = [`alter table files add column if not exists purpose text`]

/** How many pages a PDF says it has. */
export const filePages: ReadonlyArray<Step> = [`alter table files add column if not exists pages int`]

/** A chunk without its data is in a store of objects. */
export const outsideChunks: ReadonlyArray<Step> = [`alter table file_chunks alter column data drop not null`]

/** Which sessions have which files: a file goes with the last one. */
export const sessionFiles: ReadonlyArray<Step> = [
  `create table if not exists session_files (
    session_id text collate "C" not null references sessions on delete cascade,
    file_id text collate "C" not null,
    primary key (session_id, file_id)
  )`,
  `create index if not exists session_files_of_file on session_files (file_id)`
]
