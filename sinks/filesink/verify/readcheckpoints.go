package verify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

const (
	// maxCheckpointLine bounds a line of a copy: a whole upload may be one.
	maxCheckpointLine = 64 << 20
	// maxCheckpointDepth bounds how deep a copy is looked for in a wrapper.
	maxCheckpointDepth = 32
)

// ReadCheckpoints reads the copies of checkpoints in r; name stands for r in messages. r
// may hold anything else, too. It looks at every line of one or more JSON values, and finds
// a copy at any depth: as the line itself, stamped or not, as a member of a wrapper
// (CloudEvents, Splunk, Elasticsearch), and as text (OTLP, Loki). An object with a stamp is
// a record and no wrapper: its producer wrote the content, so a record of another source
// than docket is no copy. The author of a copy without a stamp is unknown: Run does not rely
// on it alone. An error says that r cannot be read, or that it mentions checkpoints and none
// can be understood.
func ReadCheckpoints(r io.Reader, name string) ([]Checkpoint, error) {
	c := copies{found: []Checkpoint{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxCheckpointLine)
	number := 0
	for lines.Scan() {
		number++
		if !bytes.Contains(lines.Bytes(), []byte(decision.ExportCheckpoint)) {
			continue
		}
		c.from = fmt.Sprintf("%s, line %d", name, number)
		c.text(lines.Bytes(), 0)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	if len(c.found) == 0 && c.damaged != "" {
		return nil, fmt.Errorf("%s: not a checkpoint as docket writes it: put each checkpoint on one line, for example with jq -c", c.damaged)
	}
	return c.found, nil
}

// copies gathers the checkpoints of one source.
type copies struct {
	from    string // the line at hand
	found   []Checkpoint
	damaged string // the first line that could not be understood
}

// text looks for copies in JSON text.
func (c *copies) text(text []byte, depth int) {
	values := json.NewDecoder(bytes.NewReader(text))
	values.UseNumber()
	for {
		var value any
		err := values.Decode(&value)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			c.notOne()
			return
		}
		c.value(value, depth)
	}
}

func (c *copies) value(value any, depth int) {
	if depth > maxCheckpointDepth {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		stamp, isRecord := v["_docket"].(map[string]any)
		if isRecord && stamp["source"] != sinks.OwnSource {
			return
		}
		if v["eventType"] == decision.ExportCheckpoint {
			c.take(v)
			return
		}
		if isRecord {
			return
		}
		for _, member := range v {
			c.value(member, depth+1)
		}
	case []any:
		for _, item := range v {
			c.value(item, depth+1)
		}
	case string:
		if strings.HasPrefix(strings.TrimSpace(v), "{") && strings.Contains(v, decision.ExportCheckpoint) {
			c.text([]byte(v), depth+1)
		}
	}
}

// take keeps a copy.
func (c *copies) take(object map[string]any) {
	text, err := json.Marshal(object)
	var record struct {
		Sink    string        `json:"sink"`
		Export  manifest.Hash `json:"export"`
		Line    manifest.Hash `json:"line"`
		LastSeq uint64        `json:"lastSeq"`
		Queue   string        `json:"queue"`
		Time    time.Time     `json:"time"`
	}
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	if err != nil || record.Sink == "" || record.Export == (manifest.Hash{}) || record.Line == (manifest.Hash{}) || record.LastSeq == 0 || record.Time.IsZero() {
		c.notOne()
		return
	}
	c.found = append(c.found, Checkpoint{
		Sink: record.Sink, Export: record.Export, Line: record.Line,
		Place: Place{Queue: record.Queue, Seq: record.LastSeq}, Time: record.Time, From: c.from,
	})
}

func (c *copies) notOne() {
	if c.damaged == "" {
		c.damaged = c.from
	}
}
