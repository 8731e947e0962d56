// Loaded into each process that is measured: on request, it says what it has used so far.
process.on("message", () => process.send?.({ cpu: process.cpuUsage(), resident: process.memoryUsage.rss() }))
process.channel?.unref()
