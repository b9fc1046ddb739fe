package encoding

import (
	"cmp"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// CloudEvents has the options of the encoding cloudEvents.
type CloudEvents struct {
	// Type is the attribute "type" of every event. Default: dev.docket.decision.
	Type string `yaml:"type"`
	// Source is the attribute "source" of every event, a URI reference. Default:
	// docket/ and the name of the record's source.
	Source string `yaml:"source"`
}

func (c *CloudEvents) validate() config.Problems {
	var p config.Problems
	p.Check("type", plainText(c.Type))
	p.Check("source", checkReference(c.Source))
	return p
}

func checkReference(text string) error {
	if _, err := url.Parse(text); err != nil || strings.Contains(text, " ") || plainText(text) != nil {
		return errors.New("must be a URI reference, such as https://example.com/cluster-a or cluster-a/docket")
	}
	return nil
}

// cloudEvents is a batch of CloudEvents 1.0 in JSON, each with a record as its
// data. The time of an event is when docket received the record: whatever a
// record says of its own time, all events of a source mean the same by theirs.
//
//	[{"specversion":"1.0","id":"<id>","source":"docket/webhook","type":"dev.docket.decision","time":"<RFC 3339>",
//	  "docketsource":"webhook","docketproducer":"<producer>","docketlate":"Replayed",
//	  "datacontenttype":"application/json","data":<record>},...]
//
// docketproducer and docketlate are left out where they are empty.
//
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md#4-json-batch-format
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md#33-batched-content-mode
type cloudEvents struct {
	kind   []byte // ,"type":"..."
	source []byte // ,"source":"..."; nil when it depends on the record
}

func newCloudEvents(e *Encoding, c CloudEvents) {
	events := &cloudEvents{kind: appendMember(nil, "type", cmp.Or(c.Type, "dev.docket.decision"))}
	if c.Source != "" {
		events.source = appendMember(nil, "source", c.Source)
	}
	e.ContentType, e.Append = "application/cloudevents-batch+json; charset=UTF-8", events.append
}

func (e *cloudEvents) append(dst []byte, b sinks.Batch) ([]byte, error) {
	if len(b.Items) == 0 {
		return dst, nil
	}
	for i := range b.Items {
		dst = append(dst, separator(i))
		dst = e.appendEvent(dst, &b, i)
	}
	return append(dst, ']'), nil
}

func (e *cloudEvents) appendEvent(dst []byte, b *sinks.Batch, i int) []byte {
	it := &b.Items[i]
	dst = append(dst, `{"specversion":"1.0","id":"`...)
	dst = appendID(dst, b, i)
	dst = append(dst, '"')
	if e.source != nil {
		dst = append(dst, e.source...)
	} else {
		dst = append(dst, `,"source":"docket/`...)
		dst = append(dst, it.Source...) // a name: nothing to escape
		dst = append(dst, '"')
	}
	dst = append(dst, e.kind...)
	dst = append(dst, `,"time":"`...)
	dst = it.Received.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, '"')
	dst = appendMember(dst, "docketsource", it.Source)
	dst = appendOptional(dst, "docketproducer", it.Producer)
	dst = appendOptional(dst, "docketlate", string(it.Late))
	dst = append(dst, `,"datacontenttype":"application/json","data":`...)
	dst = append(dst, it.Record...)
	return append(dst, '}')
}
