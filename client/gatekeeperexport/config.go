package gatekeeperexport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/stream"
)

// settings is the config of a Connection.
type settings struct {
	Address          string
	Producer         string
	Mode             client.Mode
	Timeout          duration
	MaxBufferedBytes size
	Keep             []decision.Decision
	TLS              *client.TLSConfig
}

// defaults are the settings of a Connection that has an address alone. Only in mode
// BlockingStrict does Gatekeeper's status say what has arrived. The timeout outlasts a
// disk that is busy for a moment; an audit waits for it once. The records around an audit
// run, which have no decision, and the actions that only the operator knows are kept
// longer than what changes nothing for anybody.
func defaults() settings {
	return settings{
		Producer: "gatekeeper", Mode: client.BlockingStrict, Timeout: duration(3 * time.Second),
		Keep: []decision.Decision{decision.Deny, client.Unspecified, decision.Warn, decision.DryRun},
	}
}

// parseConfig reads the config of a Connection, which is what encoding/json makes
// of an object. pod ends the name of the producer.
func parseConfig(config any, pod string) (client.Config, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return client.Config{}, err
	}
	s := defaults()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return client.Config{}, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if len(s.Keep) == 0 { // null
		s.Keep = defaults().Keep
	}
	c := client.Config{
		Address: s.Address, Producer: withPod(s.Producer, pod), Mode: s.Mode, Timeout: time.Duration(s.Timeout),
		MaxBufferedBytes: int(s.MaxBufferedBytes), Keep: s.Keep, TLS: s.TLS,
	}
	err = c.Validate()
	if s.Address == "" {
		err = errors.Join(errors.New("address: must be given, such as unix:///run/docket/docket.sock"), err)
	}
	return c, err
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

type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed <= 0 {
		return fmt.Errorf("timeout: must be a duration such as 200ms, 3s or 1m, with its unit (a day is 24h), not %.40q", text)
	}
	*d = duration(parsed)
	return nil
}

// size is a number of bytes, or a text such as 8Mi.
type size int

// UnmarshalJSON implements json.Unmarshaler.
func (s *size) UnmarshalJSON(value []byte) error {
	if string(value) == "null" {
		return nil
	}
	text, shift := strings.Trim(string(value), `"`), 0
	for i, unit := range []string{"Ki", "Mi", "Gi"} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			text, shift = number, 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 || n > math.MaxInt>>shift { // 0 would stand for the default
		return fmt.Errorf("maxBufferedBytes: must be a size such as 8Mi or 512Ki, not %.40s", value)
	}
	*s = size(n << shift)
	return nil
}
