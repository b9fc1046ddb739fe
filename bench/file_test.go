package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// backlogRecords is what an iteration delivers.
const backlogRecords = 200_000

// BenchmarkFile is the delivery of a backlog to files, from the first that docket says is there to the last.
// The plain program writes the same bytes in a row, and syncs as often as docket has batches.
func BenchmarkFile(b *testing.B) {
	batch := 4000.0
	b.Run("program=docket", func(b *testing.B) {
		dir := backlog(b, backlogRecords)
		var sum stint
		for n := 0; b.Loop(); n++ {
			name, export := fmt.Sprint("file-", n), filepath.Join(dir, fmt.Sprint("export-", n))
			d := startDocket(b, dir, fileSink(name, export))
			first, began, cpu := d.awaitDelivered(name, 1), time.Now(), d.cpu()
			d.awaitDelivered(name, backlogRecords)
			sum.add(stint{records: backlogRecords - first, took: time.Since(began), cpu: d.cpu() - cpu})
			batch = backlogRecords / d.metric(fmt.Sprintf("docket_send_duration_seconds_count{sink=%q}", name))
			d.stop()
			check(b, os.RemoveAll(export))
			rest(b, dir)
		}
		sum.report(b)
	})
	b.Run("program=plain", func(b *testing.B) { plainAppend(b, backlogRecords, batch) })
}
