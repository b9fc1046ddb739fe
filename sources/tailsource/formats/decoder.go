package formats

import (
	"bytes"
	"slices"

	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/linecut"
)

// Decoder chooses the records among the bytes of a log, in its format. What it chooses
// depends on the bytes of a file alone, and on what it has carried over from the one
// before: so the records have the same numbers at every reading.
type Decoder struct {
	Options
	// Batch is what was chosen since it was last cleared.
	Batch Batch

	lines      linecut.Cutter
	carry      Carry
	passed     [reasons]uint64
	seen       bool // a whole line of the file
	recognised bool
}

// framing is what a runtime puts before a line, at most.
const framing = 128

// keptBuffer bounds what is kept for the next line that comes in pieces.
const keptBuffer = 64 << 10

// Options say how a log is decoded.
type Options struct {
	Format Format
	Limit  int // the longest record that is held
	// Redacts says that lines are to be redacted: no half of one is carried over.
	Redacts bool
}

// NewDecoder makes a decoder that goes on with what an earlier one has carried over.
func NewDecoder(o Options, c *Carry) *Decoder {
	d := &Decoder{Options: o, carry: c.clone()}
	d.Begin(false)
	return d
}

// Carry is what lines leave behind for those that follow, be it in the next file: what has come
// of a line in pieces, by its stream.
type Carry [streams]joined

func (c *Carry) clone() (own Carry) {
	for i, j := range c {
		own[i] = j
		own[i].Text = bytes.Clone(j.Text)
	}
	return own
}

// Carry is a copy of what is carried over, for a state.
func (d *Decoder) Carry() Carry {
	if !d.Redacts {
		return d.carry.clone()
	}
	var own Carry
	for i := range d.carry {
		own[i].Lost = !d.carry[i].empty() // half a line cannot be redacted
	}
	return own
}

// HasText reports whether any line in pieces has a text.
func (d *Decoder) HasText() bool {
	return slices.ContainsFunc(d.carry[:], func(j joined) bool { return len(j.Text) > 0 })
}

// Forget returns how many lines in pieces were not carried over, once: the numbers of the lines
// behind them are not what they were.
func (d *Decoder) Forget() (lost int) {
	for i := range d.carry {
		if j := &d.carry[i]; j.Lost && !j.told {
			j.told = true
			lost++
		}
	}
	return lost
}

// Begin begins another file. recognised says that an earlier reading has recognised something
// in it.
func (d *Decoder) Begin(recognised bool) {
	d.lines = linecut.Cutter{Limit: max(d.Limit, maxDocker) + framing, SkipHoles: true}
	d.seen, d.recognised = false, recognised
	d.Batch.Clear()
}

// Recognised reports whether anything of the file was a record that can be read, or another
// line of the engine.
func (d *Decoder) Recognised() bool { return d.recognised }

// HasSeen reports whether there was a whole line in the file since Begin.
func (d *Decoder) HasSeen() bool { return d.seen }

// PassedOver returns how many lines were passed over since the last call, by reason.
func (d *Decoder) PassedOver() map[string]uint64 {
	var counts map[string]uint64
	for reason, n := range d.passed {
		if n > 0 {
			if counts == nil {
				counts = make(map[string]uint64)
			}
			counts[reasonNames[reason]] = n
		}
	}
	d.passed = [reasons]uint64{}
	return counts
}

// reason is why a line was passed over.
type reason int

const (
	noObject  reason = iota // it is not a JSON object
	otherKind               // it is an object of another kind than the format takes
	unframed                // it has no framing, in the format cri
	reasons
)

var reasonNames = [reasons]string{"NoObject", "OtherKind", "Unframed"}

// Decode takes the next bytes of a file.
func (d *Decoder) Decode(data []byte) {
	_ = d.lines.Cut(data, func(text []byte, length int64) error {
		d.line(text, length)
		return nil
	})
}

// End takes what the file ends with behind its last newline for a line. moved says that
// what comes next is not the same log: of a line in pieces no more comes.
func (d *Decoder) End(moved bool) {
	if rest, length := d.lines.Rest(); len(rest) > 0 {
		d.line(rest, length)
	}
	for s := range streams {
		if moved && !d.carry[s].empty() {
			d.endJoined(s)
		}
	}
}

// IsBetween reports whether the last byte has ended a line.
func (d *Decoder) IsBetween() bool { return d.lines.IsBetween() }

// line takes a line; length is 0, or that of a line of which text is the beginning.
// What a file ends with behind its last newline is a line as well.
func (d *Decoder) line(text []byte, length int64) {
	text = sources.WithoutMark(text)
	f, framed := parseFrame(text)
	switch {
	case framed && length > 0:
		d.join(f, length-int64(len(text)-len(f.text)))
	case framed:
		d.join(f, 0)
	case d.Format == CRI && isObject(text):
		d.seen = true
		d.passed[unframed]++
	default:
		d.choose(text, length)
	}
}

// join takes what a runtime has written: a line, or a piece of one.
func (d *Decoder) join(f frame, length int64) {
	j := &d.carry[f.stream]
	switch {
	case f.partial && j.Lost:
	case f.partial:
		j.add(f.text, length, d.Limit+len("\r"))
	case j.empty():
		d.choose(f.text, length)
	default:
		j.add(f.text, length, d.Limit+len("\r")) // to no avail if it is lost
		d.endJoined(f.stream)
	}
}

// endJoined takes what there is of a line in pieces for the whole of it.
func (d *Decoder) endJoined(s stream) {
	j := &d.carry[s]
	if !j.Lost {
		d.choose(j.Text, j.Length)
	}
	j.clear()
}

// choose emits text if it is a record of the format. A line that cannot be read, and
// could have been one, is emitted as well: it is then refused, kept and counted.
func (d *Decoder) choose(text []byte, length int64) {
	text = bytes.TrimSuffix(text, []byte("\r"))
	if len(bytes.TrimLeft(text, " \t\r")) == 0 {
		return
	}
	d.seen = true
	switch {
	case !isObject(text):
		d.passed[noObject]++
	case length > 0 || len(text) > d.Limit:
		d.Batch.addTooLarge(text[:min(len(text), linecut.MaxPrefix)], max(length, int64(len(text))))
	case d.Format == JSON || d.Format == CRI:
		d.recognised = d.recognised || readable(text)
		d.Batch.add(text)
	case !readable(text): // it is for the intake to judge
		d.Batch.add(text)
	case d.Format == OPAConsole:
		if string(rawjson.Member(text, "type").Text()) == opaDecision {
			d.take(text)
		} else {
			d.passOther(text, "msg", "time")
		}
	default:
		d.chooseGatekeeper(text)
	}
}

// opaDecision is the type of the lines in which OPA logs decisions.
const opaDecision = "openpolicyagent.org/decision_logs"

func (d *Decoder) chooseGatekeeper(text []byte) {
	event := rawjson.Member(text, "event_type").String()
	if event == "violation" || event == "violation_audited" {
		d.take(text)
	} else {
		d.passOther(text, "msg", "ts")
	}
}

// take emits a record that can be read.
func (d *Decoder) take(text []byte) {
	d.recognised = true
	d.Batch.add(text)
}

// passOther passes over an object of another kind. With the members that the engine's own lines
// have, the file is recognised as its log: it may have no decision for hours.
func (d *Decoder) passOther(text []byte, members ...string) {
	d.passed[otherKind]++
	d.recognised = d.recognised || !slices.ContainsFunc(members, func(name string) bool {
		return rawjson.Member(text, name).Kind() == rawjson.Invalid
	})
}

// isObject reports whether text begins as an object does.
func isObject(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r")
	return len(text) > 0 && text[0] == '{'
}

// readable reports whether text is JSON.
func readable(text []byte) bool { return rawjson.KindOf(text) != rawjson.Invalid }
