package gatekeeperexport

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/stream"
)

const (
	// defaultProducer is what a producer is called before its pod.
	defaultProducer = "gatekeeper"
	// defaultMode is the only one in which Gatekeeper's status says what has
	// arrived.
	defaultMode = client.BlockingStrict
	// defaultTimeout outlasts a disk that is busy for a moment; an audit waits
	// for it once.
	defaultTimeout = 3 * time.Second
)

// defaultKeep puts the records around an audit run, which have no decision, and the
// actions that only the operator knows before what changes nothing for anybody.
func defaultKeep() []decision.Decision {
	return []decision.Decision{decision.Deny, client.Unspecified, decision.Warn, decision.DryRun}
}

// parseConfig reads the config of a Connection, which is what encoding/json makes
// of an object. pod ends the name of the producer. The error has every problem at
// once, each after its key.
func parseConfig(config any, pod string) (client.Config, error) {
	members, ok := config.(map[string]any)
	if !ok {
		return client.Config{}, errors.New("must be a mapping with at least address: unix:///run/docket/docket.sock")
	}
	c := client.Config{Producer: defaultProducer, Mode: defaultMode, Timeout: defaultTimeout, Keep: defaultKeep()}
	d := decoder{members: members}
	d.text("address", &c.Address)
	d.text("producer", &c.Producer)
	d.text("mode", (*string)(&c.Mode))
	d.duration("timeout", &c.Timeout)
	d.size("maxBufferedBytes", &c.MaxBufferedBytes)
	d.decisions("keep", &c.Keep)
	d.tls("tls", &c.TLS)
	d.done()
	if members["address"] == nil {
		d.problemf("address", "must be given, such as unix:///run/docket/docket.sock")
	}
	c.Producer = withPod(c.Producer, pod)
	return c, errors.Join(append(d.problems, c.Validate())...)
}

// withPod returns the name of the producer in one pod. Of a long name of a pod it
// takes the end, which tells pods of one set apart.
func withPod(producer, pod string) string {
	room := client.MaxProducer - len(producer) - len("/")
	if room <= 0 || stream.CheckProducer(pod) != nil {
		return producer
	}
	return producer + "/" + pod[max(len(pod)-room, 0):]
}

// decoder takes members of a mapping, each at most once. One that is absent or
// null leaves what it would set as it is.
type decoder struct {
	path     string // of the mapping, with the dot behind it
	members  map[string]any
	known    []string
	problems []error
}

func (d *decoder) problemf(key, format string, args ...any) {
	d.problems = append(d.problems, fmt.Errorf("%s%s: "+format, append([]any{d.path, key}, args...)...))
}

// member returns the value of key. It is false when there is none.
func (d *decoder) member(key string) (value any, ok bool) {
	d.known = append(d.known, key)
	value = d.members[key]
	return value, value != nil
}

// done reports the members that were not read.
func (d *decoder) done() {
	for _, key := range slices.Sorted(maps.Keys(d.members)) {
		if !slices.Contains(d.known, key) {
			d.problemf(key, "unknown key, known keys: %s", strings.Join(d.known, ", "))
		}
	}
}

func (d *decoder) text(key string, to *string) {
	value, ok := d.member(key)
	if !ok {
		return
	}
	text, ok := value.(string)
	if !ok || text == "" {
		d.problemf(key, "must be a string, not %s", show(value))
		return
	}
	*to = text
}

func (d *decoder) duration(key string, to *time.Duration) {
	var text string
	if d.text(key, &text); text == "" {
		return
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration <= 0 {
		d.problemf(key, "must be a duration such as 200ms, 3s or 1m, with its unit (a day is 24h), not %s", show(text))
		return
	}
	*to = duration
}

// size takes a number of bytes, or a text such as 8Mi.
func (d *decoder) size(key string, to *int) {
	value, ok := d.member(key)
	if !ok {
		return
	}
	size, ok := parseSize(value)
	if !ok {
		d.problemf(key, "must be a size such as 8Mi or 512Ki, not %s", show(value))
		return
	}
	*to = size
}

// parseSize takes no size of 0, which would stand for the default.
func parseSize(value any) (size int, ok bool) {
	text, ok := value.(string)
	if !ok {
		return wholeNumber(value)
	}
	shift := 0
	for i, unit := range []string{"Ki", "Mi", "Gi"} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			text, shift = rest, 10*(i+1)
			break
		}
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 || n > math.MaxInt>>shift {
		return 0, false
	}
	return int(n) << shift, true
}

// wholeNumber takes a number above 0 of any type that a decoder of JSON makes.
func wholeNumber(value any) (n int, ok bool) {
	text, err := json.Marshal(value)
	if err != nil {
		return 0, false
	}
	n, err = strconv.Atoi(string(text))
	return n, err == nil && n > 0
}

func (d *decoder) decisions(key string, to *[]decision.Decision) {
	value, ok := d.member(key)
	if !ok {
		return
	}
	items, ok := value.([]any)
	if !ok || len(items) == 0 {
		d.problemf(key, "must be a list of decisions such as [deny, warn], not %s", show(value))
		return
	}
	*to = nil
	for _, item := range items {
		text, ok := item.(string)
		if !ok {
			d.problemf(key, "must be a list of strings, not of %s", show(item))
			*to = nil
			return
		}
		*to = append(*to, decision.Decision(text))
	}
}

func (d *decoder) tls(key string, to **client.TLSConfig) {
	value, ok := d.member(key)
	if !ok {
		return
	}
	t := new(client.TLSConfig)
	*to = t // meant to be set, even if wrongly: the address is judged by it
	members, ok := value.(map[string]any)
	if !ok {
		d.problemf(key, "must be a mapping, not %s", show(value))
		return
	}
	inner := decoder{path: key + ".", members: members}
	inner.text("caFile", &t.CAFile)
	inner.text("certFile", &t.CertFile)
	inner.text("keyFile", &t.KeyFile)
	inner.text("serverName", &t.ServerName)
	inner.done()
	d.problems = append(d.problems, inner.problems...)
}

// show is a value as it may stand in an error.
func show(value any) string {
	const most = 40
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%T", value)
	}
	if len(text) > most {
		return strings.ToValidUTF8(string(text[:most]), "") + "..."
	}
	return string(text)
}
