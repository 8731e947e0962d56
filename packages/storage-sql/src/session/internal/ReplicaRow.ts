/** How this version writes what is sealed. Another way gets another number. */
export const codec = 2

/**
 * What a replica says of itself in its row, so that the others leave alone what it cannot do: whether it parks plans, and the newest `codec` of sealed rows that it
 * reads. The version before looks at `seals` and `seals_waits` for the latter.
 */
const told = { parks: true, seals: true, seals_waits: true, codec }

const names = Object.keys(told)

/** The columns of that, and their values. */
export const toldColumns = names.join(", ")
export const toldValues = Object.values(told).join(", ")

/** The same for a row that is there. */
export const toldAgain = names.map((name) => `${name} = excluded.${name}`).join(", ")
