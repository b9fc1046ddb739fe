package gatekeeperexport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/docket-export/docket/decision"
)

// record is one record as it is sent, and what its sending depends on.
type record struct {
	line     []byte            // without a newline
	decision decision.Decision // ranks it when records must be dropped; see rank
	endsRun  bool              // it is the last of an audit run
}

// runEnd is the message of the record that ends an audit run.
const runEnd = "audit is completed"

// encode makes a record of what Gatekeeper publishes: JSON text from its webhook,
// and a struct from its audit.
func encode(data any) (record, error) {
	var line []byte
	switch d := data.(type) {
	case json.RawMessage:
		line = d
	case []byte:
		line = d
	default:
		var err error
		// As Gatekeeper's own drivers do it, with < > & escaped.
		if line, err = json.Marshal(data); err != nil {
			return record{}, err
		}
	}
	if bytes.IndexByte(line, '\n') >= 0 {
		var compact bytes.Buffer
		if err := json.Compact(&compact, line); err != nil {
			return record{}, err
		}
		line = compact.Bytes()
	}
	if text := bytes.TrimLeft(line, " \t\r"); len(text) == 0 || text[0] != '{' {
		return record{}, fmt.Errorf("%T is not a JSON object", data)
	}
	return classify(line)
}

// classify reads of a record what its sending depends on.
func classify(line []byte) (record, error) {
	var fields struct {
		EventType          string   `json:"eventType"`
		Message            string   `json:"message"`
		EnforcementAction  string   `json:"enforcementAction"`
		EnforcementActions []string `json:"enforcementActions"`
	}
	err := json.Unmarshal(line, &fields)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return record{}, err
	}
	// A field of another type is none: the record is not Gatekeeper's own.
	r := record{line: line}
	if err == nil {
		r.decision = rank(fields.EnforcementAction, fields.EnforcementActions)
		r.endsRun = fields.EventType == "" && fields.Message == runEnd
	}
	return r, nil
}

// rank returns the strictest decision that an enforcement action stands for. It
// is none for an action that only the operator knows, and for a record without
// one, such as those around an audit run; see defaultKeep.
func rank(action string, scoped []string) decision.Decision {
	if action != "scoped" {
		scoped = []string{action}
	}
	strictest := decision.DryRun
	for _, a := range scoped {
		switch d := decision.Decision(a); d {
		case decision.Deny:
			return d
		case decision.Warn:
			strictest = d
		case decision.DryRun:
		default:
			return ""
		}
	}
	if len(scoped) == 0 {
		return ""
	}
	return strictest
}
