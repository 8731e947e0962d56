#!/usr/bin/env node
// The sources of a checkout, and what was compiled of them in an installed package.
import { main } from "#simulate"

main()
