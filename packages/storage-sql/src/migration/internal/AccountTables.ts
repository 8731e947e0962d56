import type { Step } from "../MigrationStep.ts"

type Steps = ReadonlyArray<Step>

/** The newest token of each caller who has plans that act as the caller, encrypted. */
export const callerTokens: Steps = [
  `create table if not exists caller_tokens (
    owner text primary key,
    sealed text not null,
    expires_at timestamptz(3) not null
  )`,
  `create index if not exists caller_tokens_expiry on caller_tokens (expires_at)`
]

/** What callers have granted at the authorization servers of accounts, encrypted, and the secrets of links that were used. */
export const accountGrants: Steps = [
  `create table if not exists account_grants (
    owner text not null,
    account text not null,
    sealed text not null,
    scopes text[] not null,
    connected_at timestamptz(3) not null,
    expires_at timestamptz(3),
    claimed_at timestamptz(3),
    primary key (owner, account)
  )`,
  `create table if not exists used_secrets (
    digest text collate "C" primary key,
    expires_at timestamptz(3) not null
  )`,
  `create index if not exists used_secrets_expiry on used_secrets (expires_at)`
]

/** What callers have lent, and of which nobody has said that it has woken what waits for that. The version before says so of nothing. */
export const lentNews: Steps = [
  `alter table caller_tokens add column if not exists is_news boolean not null default false`,
  `alter table account_grants add column if not exists is_news boolean not null default false`,
  { index: "caller_tokens_news", on: "caller_tokens (owner) where is_news" },
  { index: "account_grants_news", on: "account_grants (owner) where is_news" }
]
