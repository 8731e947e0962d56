// Made of the schemas of the API by `node packages/client/test/wire/makeWire.ts`. A test says when it has to be made again.

import type { Json, PlanRequest } from "./Wire.ts"

export type When =
  | { readonly cron: string; readonly time_zone: string }
  | { readonly every_ms: number; readonly from?: string }
  | { readonly at: string }

export interface Schedule {
  readonly schedule_id: string
  readonly name: string
  readonly when: When
  readonly plan: { readonly [key: string]: Json }
  readonly overlap: "skip" | "queue" | "interrupt"
  readonly catch_up: "none" | "last" | "all"
  readonly paused: boolean
  readonly created_at: string
  readonly next_at: string | null
  readonly last_at: string | null
  readonly last_plan_id: string | null
  readonly failures: number
}

export interface Firing {
  readonly due_at: string
  readonly fired_at: string
  readonly plan_id: string | null
  readonly outcome: "started" | "skipped" | "refused" | "missed"
  readonly reason: string | null
}

export type SchedulePlan = Omit<PlanRequest, "question"> & { readonly question: string; readonly session?: "new" | "same" }

export interface NewSchedule {
  readonly name: string
  readonly when: When
  readonly plan: SchedulePlan
  readonly overlap?: "skip" | "queue" | "interrupt"
  readonly catch_up?: "none" | "last" | "all"
  readonly paused?: boolean
}

export interface ScheduleChange {
  readonly name?: string
  readonly when?: When
  readonly plan?: SchedulePlan
  readonly overlap?: "skip" | "queue" | "interrupt"
  readonly catch_up?: "none" | "last" | "all"
  readonly paused?: boolean
}
