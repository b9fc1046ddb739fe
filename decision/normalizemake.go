package decision

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/decision/rawjson"
)

// textSize is room for the texts of most records. It is kept as long as one of them.
const textSize = 384

// maker makes a Normalized of the members of a record.
type maker struct {
	members
	Normalized

	texts
}

// texts are what strings say, one behind the other in few allocations.
type texts struct{ builder strings.Builder }

// normalize finds out whose record it is by members that no other has. Only
// Gatekeeper's records around an audit run are known by what they say.
func (m *maker) normalize() bool {
	switch {
	case m.has(atSchemaVersion):
		m.docketRecord()
	case m.has(atDecisionID):
		m.opa()
	case m.has(atAuditID) && m.has(atStage):
		m.kubernetes()
	case m.is(atEventType, ViolationAudited), m.is(atEventType, ViolationAdmission),
		!m.has(atEventType) && (m.is(atMessage, "audit is started") || m.is(atMessage, "audit is completed")):
		m.gatekeeperExport()
	case m.has(atLogEventType) && m.has(atLogMessage):
		return m.gatekeeperLog()
	default:
		return m.docketAudit()
	}
	return true
}

// string returns what the first of ms says that is a string and not empty.
func (m *maker) string(ms ...member) string {
	for _, member := range ms {
		if s := m.unquote(m.raw(member)); s != "" {
			return s
		}
	}
	return ""
}

// unquote returns what raw says, "" when it is no string.
func (t *texts) unquote(raw rawjson.Value) string {
	if raw.Kind() != rawjson.String {
		return ""
	}
	if t.builder.Cap() == 0 {
		t.builder.Grow(textSize)
	}
	begin := t.builder.Len()
	var few [256]byte // on the stack
	t.builder.Write(raw.AppendText(few[:0]))
	return t.builder.String()[begin:]
}

// time returns the first of ms that is a time of RFC 3339.
func (m *maker) time(ms ...member) time.Time {
	for _, member := range ms {
		text := m.raw(member).Text()
		if len(text) == 0 {
			continue // which needs no error
		}
		t, err := time.Parse(time.RFC3339Nano, string(text))
		if t = t.UTC(); err == nil && t.Year() >= 1 && t.Year() <= lastYear {
			return t
		}
	}
	return time.Time{}
}

// epoch returns the time that raw, a number of seconds since 1970, stands for. As a
// double it is exact to the microsecond.
func epoch(raw []byte) time.Time {
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || seconds <= 0 || seconds > maxSeconds {
		return time.Time{}
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC()
}

// RFC 3339 has no times beyond.
const (
	lastYear   = 9999
	maxSeconds = 253402300799
)

// These texts are constants, so that they need not be copied.
var (
	decisions  = [...]Decision{Deny, Warn, DryRun, Allow} // the strictest first
	operations = [...]string{"CREATE", "UPDATE", "DELETE", "CONNECT"}
)

// decisionOf returns the decision that raw names, "" for another word. Those are
// Gatekeeper's enforcement actions too.
func decisionOf(raw rawjson.Value) Decision {
	text := raw.Text()
	for _, d := range decisions {
		if string(text) == string(d) {
			return d
		}
	}
	return ""
}

// enforced returns the decision of a constraint: its action or, when that is scoped,
// the strictest of those that were in force here.
func (m *maker) enforced(action, actions member) Decision {
	if !m.is(action, "scoped") {
		return decisionOf(m.raw(action))
	}
	strictest := Decision("")
	list := m.raw(actions)
	if list.Kind() != rawjson.Array {
		return ""
	}
	for item := range rawjson.Items(list) {
		if d := decisionOf(item); stricter(d, strictest) {
			strictest = d
		}
	}
	return strictest
}

// stricter reports whether a goes before b, which may be none.
func stricter(a, b Decision) bool {
	for _, d := range decisions {
		if a == d || b == d {
			return a == d && b != d
		}
	}
	return false
}

// processOf returns the process that raw names.
func processOf(raw rawjson.Value) Process {
	switch string(raw.Text()) {
	case string(Admission):
		return Admission
	case string(Audit):
		return Audit
	}
	return ""
}

// operationOf returns the operation of an admission request that is called as in raw.
func (m *maker) operationOf(raw rawjson.Value) string {
	text := raw.Text()
	for _, known := range operations {
		if string(text) == known {
			return known
		}
	}
	return m.unquote(raw)
}
