import { render } from "preact"

render(<main>Bowline</main>, document.body)
