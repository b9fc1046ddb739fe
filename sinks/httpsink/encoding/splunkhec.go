package encoding

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// SplunkHEC has the options of the encoding splunkHEC.
type SplunkHEC struct {
	// Index is the index that takes the events; the token must permit it.
	// Default: the token's own.
	Index string `yaml:"index"`
	// Host is the field "host" of every event. Default: Splunk's choice.
	Host string `yaml:"host"`
	// Source is the field "source" of every event. Default: the name of the
	// record's source.
	Source string `yaml:"source"`
	// SourceType is the field "sourcetype" of every event. Default: _json, which
	// Splunk reads as fields.
	SourceType string `yaml:"sourcetype"`
	// TimeFields are fields of the record, as names joined by dots, or of its normalized
	// form ("normalized.when"). The first that
	// holds a time in the form of RFC 3339 is the time of the event; without one it is when
	// docket received the record. Default: timestamp, requestReceivedTimestamp.
	TimeFields []string `yaml:"timeFields"`
}

func (c *SplunkHEC) validate() config.Problems {
	var p config.Problems
	p.Check("index", plainText(c.Index))
	p.Check("host", plainText(c.Host))
	p.Check("source", plainText(c.Source))
	p.Check("sourcetype", plainText(c.SourceType))
	return append(p, config.Each("timeFields", c.TimeFields, sinks.CheckField)...)
}

// splunkHEC is the event endpoint of Splunk's HTTP Event Collector
// (/services/collector/event): one object after the other.
//
//	{"time":1767607447.123,"source":"webhook","sourcetype":"_json",
//	 "fields":{"docket_id":"<id>","docket_source":"webhook","docket_producer":"<producer>","docket_late":"Replayed"},"event":<record>}
//
// docket_producer and docket_late are left out where they are empty. Success means
// that the collector has the events, not that they are indexed: docket does not
// ask for indexer acknowledgment. Splunk knows no identity of events, so that a
// redelivery is indexed again, under the same docket_id.
//
// https://docs.splunk.com/Documentation/Splunk/latest/Data/FormateventsforHTTPEventCollector
// https://docs.splunk.com/Documentation/Splunk/latest/Data/TroubleshootHTTPEventCollector#Possible_error_codes
type splunkHEC struct {
	constant   []byte // the members that are the same in every event
	ownSource  bool   // no source configured: the record's
	timeFields []string
}

func newSplunkHEC(to *Encoding, c SplunkHEC) {
	e := &splunkHEC{ownSource: c.Source == "", timeFields: c.TimeFields}
	to.ContentType, to.TokenScheme, to.Acceptance, to.AnswerDecides = "application/json", "Splunk", acceptsOK, true
	to.Append, to.Judge, to.Status = e.append, judgeHEC, hecStatus
	if len(e.timeFields) == 0 {
		e.timeFields = defaultTimeFields
	}
	if c.SourceType == "" {
		c.SourceType = "_json"
	}
	for _, m := range []struct{ name, value string }{
		{"index", c.Index}, {"host", c.Host}, {"source", c.Source}, {"sourcetype", c.SourceType},
	} {
		if m.value != "" {
			e.constant = appendMember(e.constant, m.name, m.value)
		}
	}
}

func (e *splunkHEC) append(dst []byte, b sinks.Batch) ([]byte, error) {
	for i := range b.Items {
		it := &b.Items[i]
		made, ok := timeOf(it.Record, e.timeFields)
		if !ok {
			made = it.Received
		}
		dst = append(dst, `{"time":`...)
		dst = appendSeconds(dst, made)
		dst = append(dst, e.constant...)
		if e.ownSource {
			dst = appendMember(dst, "source", it.Source)
		}
		dst = append(dst, `,"fields":{"docket_id":"`...)
		dst = appendID(dst, &b, i)
		dst = append(dst, '"')
		dst = appendMember(dst, "docket_source", it.Source)
		dst = appendOptional(dst, "docket_producer", it.Producer)
		dst = appendOptional(dst, "docket_late", string(it.Late))
		dst = append(dst, `},"event":`...)
		dst = append(dst, it.Record...)
		dst = append(dst, '}', '\n')
	}
	return dst, nil
}

// appendSeconds appends the seconds since 1970 with three decimals, which is
// what Splunk takes.
func appendSeconds(dst []byte, t time.Time) []byte {
	ms := t.UnixMilli()
	dst = strconv.AppendInt(dst, ms/1000, 10)
	ms %= 1000
	return append(dst, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
}

// hecAnswer is what the collector answers.
type hecAnswer struct {
	Text    string `json:"text"`
	Code    *int   `json:"code"`
	Invalid *int   `json:"invalid-event-number"` // index of the event that it stopped at
}

// readHEC reports false for what is not an answer of a collector.
func readHEC(body []byte) (hecAnswer, bool) {
	var a hecAnswer
	err := json.Unmarshal(body, &a)
	return a, err == nil && a.Code != nil && (*a.Code != 0 || a.Text == "Success") // others say "code":0, too
}

// hecCode says what a code means for the batch:
//
//	0 success, 24 25 accepted although nearly full               accepted
//	1 2 3 4 16 21 22: the token                                  Misconfigured
//	5 no data, 7 index, 10 11 14 channel and acknowledgment      Misconfigured: true of any record
//	6 12 13 15: one event cannot be read                         Rejected
//	17 healthy: the answer of another endpoint                   Misconfigured
//	8 9 18 19 20 23 and what is not known                        Transient
//	26 27 full                                                   Throttled
func hecCode(code int) (kind sinks.Kind, hint string, accepted bool) {
	switch code {
	case 0, 24, 25:
		return 0, "", true
	case 17:
		return sinks.Misconfigured, "end http.url in /services/collector/event", false
	case 1, 2, 3, 4, 16, 21, 22:
		return sinks.Misconfigured, "check the token, and that it is enabled in Splunk", false
	case 5:
		return sinks.Misconfigured, "the events did not arrive: check proxies and load balancers between docket and Splunk", false
	case 7:
		return sinks.Misconfigured, "set splunkHEC.index to an index that the token permits", false
	case 10, 11, 14:
		return sinks.Misconfigured, "use a token without indexer acknowledgment", false
	case 6, 12, 13, 15:
		return sinks.Rejected, "", false
	case 26, 27:
		return sinks.Throttled, "", false
	}
	return sinks.Transient, "", false
}

// hecStatus goes by the collector's code before the status, because most codes come with status 400.
func hecStatus(_ int, body []byte) (kind sinks.Kind, hint string, ok bool) {
	a, ok := readHEC(body)
	if !ok {
		return 0, "", false
	}
	kind, hint, accepted := hecCode(*a.Code)
	if accepted || kind == sinks.Transient {
		return 0, "", false // the status says more, and may come with Retry-After
	}
	return kind, hint, true
}

func judgeHEC(status int, body []byte, b sinks.Batch, quote Quote) error {
	a, ok := readHEC(body)
	if !ok {
		return sinks.Failf(sinks.Misconfigured,
			"the answer is not from an event collector: %q: http.url must end in /services/collector/event", quote(string(body)))
	}
	kind, hint, accepted := hecCode(*a.Code)
	if accepted {
		return nil
	}
	said := quote(fmt.Sprintf("%s (code %d)", a.Text, *a.Code))
	f := &sinks.Failure{Kind: kind, Err: fmt.Errorf("the event collector answered %s", said)}
	if hint != "" {
		f.Err = fmt.Errorf("%w: %s", f.Err, hint)
	}
	if kind == sinks.Rejected {
		f.Said = sinks.Answer{Status: strconv.Itoa(status), Text: said}
		if a.Invalid != nil && *a.Invalid >= 0 && *a.Invalid < len(b.Items) {
			f.Items, f.Each = []int{*a.Invalid}, []sinks.Answer{f.Said}
		}
	}
	return f
}
