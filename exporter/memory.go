package exporter

import (
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/budget"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sources"
)

// MemoryPart is the most memory that one part of docket takes, whatever peers send.
type MemoryPart struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// The most that parts without a configuration of their own take.
const (
	// programBytes are the Go runtime and what has no part of its own, 5 MB in an idle
	// docket, and as much again of the program's pages, of which the kernel takes back
	// the others.
	programBytes = 10 << 20
	// adminBytes are the connections of the admin endpoint, and the pages it answers, one
	// reader of the queue among them.
	adminBytes = 3 << 20
	// metricsTLSBytes are the same of the listener for metrics, with TLS.
	metricsTLSBytes = 8 << 20
	// refusedBytes are the refused lines of one verdict, with their JSON.
	refusedBytes = 16 * maxEvidence
	// spentBuffers is how many buffers of the longest record may wait for the garbage
	// collector, where that is more than the default: each part makes them anew for each
	// such record. Smaller ones are used again. With 6 a docket on a busy machine, where the
	// collector comes later, reached 311 of 313 MiB (TestMemoryCeiling, records of 16 MiB).
	spentBuffers     = 8
	usualRecordBytes = 1 << 20
	// otherBytes is for a source or sink that does not say what it takes.
	otherBytes = 4 << 20
)

// Memory returns the most memory that docket takes with this configuration. A container
// needs the sum. The pages of files, including the program, count in a container, too,
// but the kernel reclaims them when memory is short.
func (c *Config) Memory() []MemoryPart {
	record := int64(c.Limits.MaxRecordBytes)
	readers := readerBytes(int(record))
	if c.Admin.Address != "" {
		readers -= min(readers, usualReaderBytes)
	}
	parts := []MemoryPart{
		{"program", programBytes},
		{"queue", queue.MemoryBytes(int(record))},
		{"producers", state.PositionsBytes(c.Limits.Producers)},
		{"refused lines", refusedBytes},
	}
	if readers > 0 {
		parts = append(parts, MemoryPart{"queue readers", readers})
	}
	if c.Admin.Address != "" {
		parts = append(parts, MemoryPart{"admin", adminBytes})
	}
	if m := c.Metrics; m != nil && m.TLS != nil {
		parts = append(parts, MemoryPart{"metrics", metricsTLSBytes})
	} else if m != nil {
		parts = append(parts, MemoryPart{"metrics", adminBytes})
	}
	shared, redacted := false, false
	for _, s := range c.Sources {
		part := MemoryPart{"source " + s.Name, otherBytes}
		if sized, ok := s.Config.(sources.Sized); ok {
			part.Bytes = sized.MemoryBytes(int(record))
		}
		parts = append(parts, part)
		_, shares := s.Config.(sources.Sharing)
		shared = shared || shares
		redacted = redacted || len(s.Redact) > 0
	}
	if shared {
		parts = append(parts, MemoryPart{"long lines", budget.Bytes(int(record))})
	}
	if record > usualRecordBytes {
		parts = append(parts, MemoryPart{"released buffers", spentBuffers * (record - usualRecordBytes)})
	}
	if redacted {
		parts = append(parts, MemoryPart{"redaction", maxRedacting * 2 * (maxRedacted + record)})
	}
	for i := range c.Sinks {
		if !c.Sinks[i].Retire {
			parts = append(parts, MemoryPart{"sink " + c.Sinks[i].Name, c.Sinks[i].memoryBytes(record)})
		}
	}
	return parts
}

// memoryBytes is what a sink has in memory: what its cursor has read, the batch that is
// under way, and what it makes of it.
func (s *SinkConfig) memoryBytes(record int64) int64 {
	batch := max(int64(s.most().MaxBytes), record)
	bytes := s.limits().MemoryBytes(int(record))
	if s.Stamp {
		bytes += batch
	}
	if sized, ok := s.Config.(sinks.Sized); ok {
		return bytes + sized.MemoryBytes(batch)
	}
	return bytes + batch
}

// MemoryCeiling is the sum of parts.
func MemoryCeiling(parts []MemoryPart) (bytes int64) {
	for _, p := range parts {
		bytes += p.Bytes
	}
	return bytes
}
