package decision_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/docket-export/docket/decision"
)

// Details are taken and written as the standard library would.
func FuzzAppendLineDetails(f *testing.F) {
	for _, details := range detailsSamples {
		f.Add([]byte(details))
	}
	f.Add([]byte(strings.Repeat("[", 40) + strings.Repeat("]", 40)))
	f.Fuzz(checkDetails)
}

// Text is escaped as the standard library would, as a value and as a key.
func FuzzAppendLineText(f *testing.F) {
	for _, text := range []string{"", "a", "12345678", "a\"b\\c\n\x00\x7f<&>", "\u2028中\xff\xed\xa0\x80", "more than eight bytes, \u2029 twice"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkLine(t, &decision.Record{
			Message:           text,
			RequestUserGroups: []string{text, "x" + text},
			ResourceLabels:    map[string]string{text: text, text + "x": "", "x": text},
		})
	})
}

// A whole record is taken and written as the standard library would.
func FuzzAppendLine(f *testing.F) {
	dice := rand.NewChaCha8([32]byte{})
	for _, size := range []int{0, 50, 500, 3000} {
		b := make([]byte, size)
		dice.Read(b) // never fails
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r decision.Record
		fill(t, reflect.ValueOf(&r).Elem(), &source{b})
		got, err := r.AppendLine([]byte("before\n"))
		if !allowed(&r) {
			if err == nil || string(got) != "before\n" {
				t.Errorf("%+v: got %q, %v, want it refused", r, got, err)
			}
			return
		}
		var want bytes.Buffer
		want.WriteString("before\n")
		if err := encodeReference(&want, &r); err != nil {
			t.Fatal(err)
		}
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%+v:\ngot  %q, %v\nwant %q", r, got, err, want.Bytes())
		}
		r.SchemaVersion = 0
		if err := r.Validate(); err != nil {
			t.Errorf("%+v: is written, and not valid: %v", r, err)
		}
	})
}

// allowed says by means of the standard library whether r can be written.
func allowed(r *decision.Record) bool {
	switch r.Decision {
	case "", "allow", "deny", "warn", "dryrun", "error":
	default:
		return false
	}
	switch r.Process {
	case "", "admission", "audit":
	default:
		return false
	}
	for _, raw := range []json.RawMessage{r.Details, r.Object, r.OldObject, r.Patch} {
		if len(raw) > 0 && (!json.Valid(raw) || !utf8.Valid(raw)) {
			return false
		}
	}
	if _, err := json.Marshal(r.DurationSeconds); err != nil {
		return false
	}
	_, err := r.Timestamp.MarshalJSON()
	return err == nil || r.Timestamp.IsZero()
}

// source gives out the bytes of a fuzz input, then zeros.
type source struct{ rest []byte }

func (s *source) take(n int) []byte {
	out := make([]byte, n)
	s.rest = s.rest[copy(out, s.rest):]
	return out
}

func (s *source) choice(n int) int { return int(s.take(1)[0]) % n }
func (s *source) text() string     { return string(s.take(s.choice(40))) }
func (s *source) int64() int64     { return int64(binary.LittleEndian.Uint64(s.take(8))) }

// fill sets every field of a record from s.
func fill(t *testing.T, record reflect.Value, s *source) {
	for i := range record.NumField() {
		switch v := record.Field(i).Addr().Interface().(type) {
		case *string:
			*v = s.text()
		case *decision.Decision:
			*v = []decision.Decision{"", "allow", "deny", "warn", "dryrun", "error", "dryRun"}[s.choice(7)]
		case *decision.Process:
			*v = []decision.Process{"", "admission", "audit", "Audit"}[s.choice(4)]
		case *json.RawMessage:
			*v = s.details()
		case *[]string:
			for range s.choice(4) {
				*v = append(*v, s.text())
			}
		case *map[string]string:
			*v = make(map[string]string)
			for range s.choice(20) {
				(*v)[s.text()] = s.text()
			}
		case *time.Time:
			*v = s.time()
		case **bool:
			if n := s.choice(3); n > 0 {
				b := n == 1
				*v = &b
			}
		case *int:
			*v = int(s.int64())
		case *float64:
			*v = math.Float64frombits(uint64(s.int64()))
		case *uint64:
			*v = uint64(s.int64())
		default:
			t.Fatalf("fill must learn to fill a %T", v)
		}
	}
}

func (s *source) details() json.RawMessage {
	switch s.choice(4) {
	case 0:
		return nil
	case 1:
		return json.RawMessage(detailsSamples[s.choice(len(detailsSamples))])
	case 2:
		return json.RawMessage(s.text())
	}
	return json.RawMessage(` [ "` + strings.ToValidUTF8(s.text(), "") + `", 1 ] `)
}

// time gives out times of years from about -2000 to 12000 in zones up to 40
// hours from UTC.
func (s *source) time() time.Time {
	const year = 365 * 24 * 3600
	t := time.Unix(s.int64()%(10000*year), s.int64()%int64(time.Second)).UTC()
	switch s.choice(3) {
	case 0:
		return time.Time{}
	case 1:
		return t
	}
	return t.In(time.FixedZone("", int(s.int64()%(40*3600))))
}
