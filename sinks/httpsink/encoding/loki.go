package encoding

import (
	"bytes"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sinks"
)

// Loki has the options of the encoding loki.
type Loki struct {
	// Labels are the labels of every stream, beside source. Default:
	// service_name: docket.
	Labels map[string]string `yaml:"labels"`
	// QueueLabel adds the label queue, the first half of the record ids, so that each start of
	// each docket has its own streams. Loki refuses a record that is an hour older than the newest one of its
	// stream. If several dockets send to one Loki without a label that tells them apart,
	// Loki refuses the records of a docket that catches up after an outage.
	QueueLabel bool `yaml:"queueLabel"`
}

const (
	sourceLabel = "source"
	queueLabel  = "queue"
)

// labelName is the grammar of label names. Those that begin with two underscores
// are Loki's own.
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (c *Loki) validate() config.Problems {
	var p config.Problems
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		value := c.Labels[name]
		switch {
		case !labelName.MatchString(name) || len(name) > 1 && name[:2] == "__":
			p.Addf("labels", "must have names of letters, digits and underscores, without a digit or two underscores at the start, not %q", name)
		case name == sourceLabel || name == queueLabel && c.QueueLabel:
			p.Addf("labels", "must not have %s: docket sets it", name)
		case value == "" || plainText(value) != nil:
			p.Addf("labels."+name, "must be a text without control characters")
		}
	}
	return p
}

// loki is the push API of Grafana Loki (/loki/api/v1/push) in JSON: one stream for
// each source, each record one line, byte for byte.
//
//	{"streams":[{"stream":{"service_name":"docket","source":"webhook"},"values":[
//	  ["1767607447123000042",<record as a string>,{"docket_id":"<id>","docket_producer":"<producer>","docket_late":"Replayed"}],...]},...]}
//
// docket_producer and docket_late are left out where they are empty. The time of a
// line is when docket received it, to the millisecond, with the last six digits of
// seq for the rest: Loki drops a line that has the time and the text of another of
// its stream, so two records of one text must not share a time, and a redelivery
// should. It drops that as long as it has the first in memory.
//
// https://grafana.com/docs/loki/latest/reference/loki-http-api/#ingest-logs
type loki struct {
	open       []byte // {"stream":{ and the static labels
	queueLabel bool
}

func newLoki(to *Encoding, c Loki) {
	e := &loki{queueLabel: c.QueueLabel}
	to.ContentType, to.Acceptance = "application/json", acceptsLoki
	to.Append, to.Status = e.append, lokiStatus
	labels := c.Labels
	if len(labels) == 0 {
		labels = map[string]string{"service_name": "docket"}
	}
	e.open = append(e.open, `{"stream":{`...)
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		e.open = append(e.open, '"')
		e.open = append(e.open, name...)
		e.open = append(e.open, '"', ':')
		e.open = rawjson.AppendString(e.open, labels[name])
		e.open = append(e.open, ',')
	}
}

// append goes through a batch once for each source: there are few.
func (e *loki) append(dst []byte, b sinks.Batch) ([]byte, error) {
	if len(b.Items) == 0 {
		return dst, nil
	}
	dst = append(dst, `{"streams":`...)
	for n, source := range sourcesOf(&b) {
		dst = append(dst, separator(n))
		dst = e.appendStream(dst, &b, source)
	}
	return append(dst, ']', '}'), nil
}

// sourcesOf lists the sources of b, each once, in the order of their first items.
func sourcesOf(b *sinks.Batch) []string {
	var names []string
	for i := range b.Items {
		if !slices.Contains(names, b.Items[i].Source) {
			names = append(names, b.Items[i].Source)
		}
	}
	return names
}

func (e *loki) appendStream(dst []byte, b *sinks.Batch, source string) []byte {
	dst = append(dst, e.open...)
	dst = append(dst, `"source":`...)
	dst = rawjson.AppendString(dst, source)
	if e.queueLabel {
		dst = appendMember(dst, queueLabel, b.Queue)
	}
	dst = append(dst, `},"values":`...)
	n := 0
	for i := range b.Items {
		if b.Items[i].Source == source {
			dst = append(dst, separator(n))
			dst = appendLine(dst, b, i)
			n++
		}
	}
	return append(dst, ']', '}')
}

func appendLine(dst []byte, b *sinks.Batch, i int) []byte {
	it := &b.Items[i]
	dst = append(dst, '[', '"')
	dst = strconv.AppendInt(dst, lineTime(it), 10)
	dst = append(dst, '"', ',')
	dst = rawjson.AppendString(dst, string(it.Record))
	dst = append(dst, `,{"docket_id":"`...)
	dst = appendID(dst, b, i)
	dst = append(dst, '"')
	dst = appendOptional(dst, "docket_producer", it.Producer)
	dst = appendOptional(dst, "docket_late", string(it.Late))
	return append(dst, '}', ']')
}

// lineTime is the time of a line in nanoseconds since 1970.
func lineTime(it *sinks.Item) int64 {
	const perMilli = uint64(time.Millisecond)
	return it.Received.UnixMilli()*int64(perMilli) + int64(it.Seq%perMilli)
}

// lokiStatus has what to do about the 401 of a Loki for several tenants.
func lokiStatus(status int, body []byte) (kind sinks.Kind, hint string, ok bool) {
	if status != http.StatusUnauthorized || !bytes.Contains(body, []byte("no org id")) {
		return 0, "", false
	}
	return sinks.Misconfigured, "Loki requires a tenant: set X-Scope-OrgID in http.headers", true
}
