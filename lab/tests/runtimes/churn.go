// Allocates and drops memory, then reports what the collector did and which settings it had.
package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
)

func main() {
	kept := make([][]byte, 4000)
	sum := 0
	for i := 0; i < 400000; i++ {
		kept[i%len(kept)] = make([]byte, 500+i%1500)
		sum += len(kept[(i*7)%len(kept)])
	}
	fmt.Println(sum)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		limit = 0
	}
	out, err := os.OpenFile(os.Getenv("ASHLAR_REPORT_FILE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(out, "{\"gc_count\": %d, \"setting_percent\": %d, \"limit_mib\": %d, \"threads\": %d}\n",
		memory.NumGC, debug.SetGCPercent(100), limit>>20, runtime.GOMAXPROCS(0))
	out.Close()
}
