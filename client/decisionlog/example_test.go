package decisionlog_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/docket-export/docket/client/decisionlog"
	"github.com/docket-export/docket/decision"
)

// Attributes named like fields of a record fill them. The others are details.
func ExampleHandler() {
	log := slog.New(decisionlog.NewHandler(printer{}, nil))

	request := log.With("requestUID", "b55fd242", "operation", "CREATE", slog.Group("timing", "queue", 2*time.Millisecond))
	request.Info("no policy objects")
	request.Warn("image has no digest", "name", "digests", "image", "cart:1.2")
	request.Error("image is not signed", "name", "signed", slog.Group("timing", "verify", time.Second))
	request.Error("too many replicas", "name", "replicas", "decision", decision.DryRun, "enforcementAction", "dryrun")

	// Output:
	// {"details":{"timing":{"queue":2000000}},"message":"no policy objects","operation":"CREATE","schemaVersion":1,"decision":"allow","requestUID":"b55fd242"}
	// {"details":{"image":"cart:1.2","timing":{"queue":2000000}},"name":"digests","message":"image has no digest","operation":"CREATE","schemaVersion":1,"decision":"warn","requestUID":"b55fd242"}
	// {"details":{"timing":{"queue":2000000,"verify":1000000000}},"name":"signed","message":"image is not signed","operation":"CREATE","schemaVersion":1,"decision":"deny","requestUID":"b55fd242"}
	// {"details":{"timing":{"queue":2000000}},"name":"replicas","message":"too many replicas","enforcementAction":"dryrun","operation":"CREATE","schemaVersion":1,"decision":"dryrun","requestUID":"b55fd242"}
}

// printer stands for a client. It leaves out the time, which is another each run.
type printer struct{}

func (printer) Export(_ context.Context, r *decision.Record) error {
	timeless := *r
	timeless.Timestamp = time.Time{}
	line, err := timeless.AppendLine(nil)
	fmt.Print(string(line))
	return err
}
