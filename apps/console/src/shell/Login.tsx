import { useSignal } from "@preact/signals"
import type { TargetedEvent } from "preact"
import { useEffect, useRef } from "preact/hooks"
import { hasProvider, logIn } from "../gateway/Gateway.ts"

/** Asks for a key, over what is shown. The key is sent once, and kept nowhere. */
export const Login = () => {
  const dialog = useRef<HTMLDialogElement>(null)
  const problem = useSignal<string | undefined>(undefined)
  const isBusy = useSignal(false)
  const canGo = useSignal(false)

  useEffect(() => {
    dialog.current?.showModal()
    void hasProvider().then((has) => (canGo.value = has))
  }, [])

  const submit = async (event: TargetedEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (isBusy.value) return
    const form = event.currentTarget
    const key = new FormData(form).get("key")
    isBusy.value = true
    problem.value = await logIn(typeof key === "string" ? key.trim() : "")
    isBusy.value = false
    form.reset()
  }

  return (
    // It closes when the login succeeds, and not before.
    <dialog ref={dialog} class="login" aria-labelledby="login-title" onCancel={(event) => event.preventDefault()}>
      <form method="post" action="/console/session" onSubmit={(event) => void submit(event)}>
        <h2 id="login-title">Log in to Bowline</h2>
        <p>The gateway wants a key. What you look at goes on when you are logged in.</p>
        <label>
          Key
          <input type="password" name="key" required autocomplete="current-password" spellcheck={false} />
        </label>
        {problem.value === undefined ? null : (
          <p class="problem" role="alert">
            {problem.value}
          </p>
        )}
        <button type="submit" class="primary" disabled={isBusy.value}>
          Log in
        </button>
        {canGo.value ? (
          <p>
            <a href="/console/login">Log in with your identity provider</a>
          </p>
        ) : null}
      </form>
    </dialog>
  )
}
