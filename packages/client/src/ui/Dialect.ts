import type { Failure, Final, FrameHead, Json, PlanFrame } from "../Wire.ts"

type DataOf<Frame extends PlanFrame, Event> = Frame extends PlanFrame
  ? [Extract<Frame["event"], Event>] extends [never]
    ? never
    : Frame["data"]
  : never

/** What a frame of this event has. */
export type FrameData<Event extends PlanFrame["event"]> = DataOf<PlanFrame, Event>

/** A stretch of text or reasoning of one attempt. `part` counts those of its kind within the attempt, from 0. */
export interface Segment {
  readonly kind: "text" | "reasoning"
  readonly step: number
  readonly attempt: number
  readonly part: number
  text: string
}

/** A file that a tool has given, and the URL where it can be shown from. */
export interface ShownFile {
  readonly url: string
  readonly mediaType: string
}

/** A call of a tool that has ended. */
export interface EndedCall {
  readonly data: FrameData<"task.finished">
  readonly started: FrameData<"task.started">
  /** What it gave: null for nothing, and a list where it gave several things. */
  readonly output: Json
  /** Of the files that it gave those that can be shown. */
  readonly files: ReadonlyArray<ShownFile>
  /** Somebody has rejected it: it was not made. */
  readonly isRejected: boolean
  /** It was shown as one that the client makes. */
  readonly isOwn: boolean
  /** Its progress was shown. */
  readonly hasProgress: boolean
}

/** What can be said of a call in every protocol. */
export const errorOf = ({ error, state }: FrameData<"task.finished">): string =>
  error?.message ?? `The call is ${state}`

/** What is said of a call that waits for a person when its plan ends. */
export const neverMade = "The plan ended before the call was made"

/** How a UI protocol says what happens in a plan: each method gives the events for it. */
export interface Dialect<Event> {
  /** The stream begins. `step` is the one that is open where the stream goes on with a plan that the client has seen before. */
  begin(head: FrameHead & { readonly model: string | null }, step: number | undefined): ReadonlyArray<Event>
  /** The stream goes on with the next plan, which answers what this one could not hear any more. */
  follow(head: FrameHead & { readonly model: string | null }): ReadonlyArray<Event>
  startStep(step: number): ReadonlyArray<Event>
  endStep(step: number): ReadonlyArray<Event>
  open(segment: Segment): ReadonlyArray<Event>
  add(segment: Segment, delta: string): ReadonlyArray<Event>
  close(segment: Segment): ReadonlyArray<Event>
  /** Takes back segments of the step that runs; `kept` are its others. */
  retract(removed: ReadonlyArray<Segment>, kept: ReadonlyArray<Segment>): ReadonlyArray<Event>
  /** Shows a call, before it is made or decided about. `parent` is the text of its step, `isOwn` says that the client is to make it. */
  show(
    call: FrameData<"task.started" | "approval.requested">,
    parent: Segment | undefined,
    isOwn: boolean
  ): ReadonlyArray<Event>
  start(call: FrameData<"task.started">): ReadonlyArray<Event>
  progress(data: FrameData<"task.progress">, started: Pick<FrameData<"task.started">, "tool">): ReadonlyArray<Event>
  finish(call: EndedCall): ReadonlyArray<Event>
  /** A tool that runs has given a file. */
  file?(file: ShownFile): ReadonlyArray<Event>
  request(data: FrameData<"approval.requested">): ReadonlyArray<Event>
  resolve(data: FrameData<"approval.resolved">): ReadonlyArray<Event>
  /** The plan has ended before somebody decided about the call. */
  settle(data: FrameData<"approval.requested">): ReadonlyArray<Event>
  /** The client is to make a call that was shown when an approval was asked for. */
  hand(call: FrameData<"task.started">): ReadonlyArray<Event>
  /** The stream ends before the plan: that `waits` for decisions about these calls, or for results of the client, or the client has `said` something. */
  pause(waiting: ReadonlyArray<FrameData<"approval.requested">>, why: "waits" | "said"): ReadonlyArray<Event>
  complete(final: Final): ReadonlyArray<Event>
  fail(failure: Pick<Failure, "code" | "message" | "reason">): ReadonlyArray<Event>
}
