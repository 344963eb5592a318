// Allocates and drops memory, then reports what the collector did and which settings it had.
const { PerformanceObserver } = require("perf_hooks");
const fs = require("fs");
const v8 = require("v8");

let count = 0;
new PerformanceObserver((list) => { count += list.getEntries().length; }).observe({ entryTypes: ["gc"] });
const kept = new Array(4000);
let sum = 0;
for (let i = 0; i < 400000; i++) {
  kept[i % kept.length] = { a: i, b: [i, i + 1, i + 2], c: "x" + i };
  sum += (kept[(i * 7) % kept.length] || { a: 0 }).a % 1000;
}
console.log(sum);
setTimeout(() => {
  const limit = Math.round(v8.getHeapStatistics().heap_size_limit / 1048576);
  fs.appendFileSync(process.env.ASHLAR_REPORT_FILE, JSON.stringify({ gc_count: count, limit_mib: limit }) + "\n");
}, 20);
