package tailsource

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/docket-export/docket/internal/jsonline"
	"github.com/docket-export/docket/sources"
)

// decoder chooses the records among the lines of a log, in its format. What it chooses
// depends on the bytes of a file alone, and on what it has carried over from the one
// before: so the records have the same numbers at every reading.
type decoder struct {
	format Format
	limit  int    // the longest record that is held
	log    string // the name of the log, for the records of runs
	carry  carry
	// redaction is what is left out of what is kept of lines; nil: nothing.
	redaction sources.Redaction

	at    origin // of the line
	batch *batch // what was chosen
}

// carry is what lines leave behind for those that follow, be it in the next file.
type carry struct {
	Joined [streams]joined `json:"joined"`
	Audits audits          `json:"audits"`
}

func (c *carry) clone() carry {
	own := carry{Audits: c.Audits.clone()}
	for i, j := range c.Joined {
		own.Joined[i] = j
		own.Joined[i].Text = bytes.Clone(j.Text)
	}
	return own
}

// withoutText is a copy for a state, where lines are to be redacted.
func (c *carry) withoutText() carry {
	own := carry{Audits: c.Audits.clone()}
	for i, j := range c.Joined {
		own.Joined[i] = j.withoutText()
	}
	return own
}

// toKeep is what a state has of carry.
func (d *decoder) toKeep() carry {
	if d.redaction != nil {
		return d.carry.withoutText()
	}
	return d.carry.clone()
}

// line takes a line; length is 0, or that of a line of which text is the beginning.
// What a file ends with behind its last newline is a line as well.
func (d *decoder) line(text []byte, length int64) {
	switch {
	case isObject(text) && d.format != CRI:
		d.choose(text, length)
	case d.format == JSON:
		if _, ok := parseCRI(text); ok {
			d.batch.framed = true
		}
	default:
		if c, ok := parseCRI(text); ok {
			if length > 0 {
				length -= int64(len(text) - len(c.text))
			}
			d.join(c, length)
		}
	}
}

// join takes what a runtime has written: a line, or a piece of one.
func (d *decoder) join(c criLine, length int64) {
	j := &d.carry.Joined[c.stream]
	if j.empty() && c.partial && len(c.text) > 0 {
		j.Begun = d.at
	}
	switch {
	case c.partial && j.Lost:
	case c.partial:
		j.add(c.text, length, d.limit+len("\r"))
	case j.empty():
		d.choose(c.text, length)
	default:
		j.add(c.text, length, d.limit+len("\r")) // to no avail if it is lost
		d.endJoined(c.stream)
	}
}

// endJoined takes what there is of a line in pieces for the whole of it.
func (d *decoder) endJoined(s stream) {
	j := &d.carry.Joined[s]
	if !j.Lost {
		d.choose(j.Text, j.Length)
	}
	j.clear()
}

// endAllJoined takes what there is of any line in pieces for the whole: no more comes.
func (d *decoder) endAllJoined() {
	for s := range streams {
		if !d.carry.Joined[s].empty() {
			d.endJoined(s)
		}
	}
}

// choose emits text if it is a record of the format. A line that cannot be read, and
// could have been one, is emitted as well: it is then refused, kept and counted.
func (d *decoder) choose(text []byte, length int64) {
	text = bytes.TrimSuffix(text, []byte("\r"))
	switch {
	case !isObject(text):
	case length > 0 || len(text) > d.limit:
		d.batch.addTooLarge(text[:min(len(text), prefixBytes)], max(length, int64(len(text))))
	case d.format == JSON || d.format == CRI:
		d.batch.add(text)
	case d.format == OPAConsole:
		if gjson.GetBytes(text, "type").String() == opaDecision || !readable(text) {
			d.batch.add(text)
		}
	default:
		d.chooseGatekeeper(text)
	}
}

// opaDecision is the type of the lines in which OPA logs decisions.
const opaDecision = "openpolicyagent.org/decision_logs"

func (d *decoder) chooseGatekeeper(text []byte) {
	event := gjson.GetBytes(text, "event_type").String()
	if event == "violation" || !readable(text) { // a violation is for the intake to judge
		d.batch.add(text)
		return
	}
	if event == "violation_audited" {
		d.batch.add(text)
	}
	if rec := d.carry.Audits.observe(event, d.clean(text)); rec != nil {
		rec.File = d.log
		d.batch.addRun(rec)
	}
}

// clean is what redaction leaves of a line that is JSON; nil where it leaves nothing for
// now. A run of which a line is missing is not proven.
func (d *decoder) clean(text []byte) []byte {
	if d.redaction == nil {
		return text
	}
	left, err := d.redaction.Append(nil, text)
	if err != nil {
		return nil
	}
	return left
}

// isObject reports whether text begins as an object does.
func isObject(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r")
	return len(text) > 0 && text[0] == '{'
}

// readable reports whether text is JSON.
func readable(text []byte) bool { return jsonline.KindOf(text) != jsonline.Invalid }
