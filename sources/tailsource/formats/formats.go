// Package formats says what a line of a log means: which lines are records, and how a
// container runtime has framed them.
//
//	formats.go   the formats there are
//	decoder.go   records chosen among the bytes of a log
//	cri.go       the framing of container runtimes, by the CRI and by Docker
//	batch.go     the records that were chosen
package formats

// Format says which lines of a log file are records, and how they are framed.
type Format string

// The formats. Lines in another form, such as text among JSON, are skipped.
const (
	// GatekeeperDenies takes the violations in a log of Gatekeeper, of its webhook and
	// of its audit.
	GatekeeperDenies Format = "gatekeeperDenies"
	// OPAConsole takes the decisions that OPA writes to its console.
	OPAConsole Format = "opaConsole"
	// JSON takes every object. Like the formats above, it removes the framing of a container
	// runtime.
	JSON Format = "json"
	// CRI takes every object that a container runtime has framed, and nothing else.
	CRI Format = "cri"
)

// MemoryBytes is what a Decoder has in memory at most, beside its Batch: the line that is
// cut, and a line in pieces of each stream of a container.
func MemoryBytes(maxRecordBytes int) int64 {
	return int64(max(maxRecordBytes, maxDocker)) + int64(streams)*int64(maxRecordBytes)
}
