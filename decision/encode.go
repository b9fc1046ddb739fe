package decision

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/decision/rawjson"
)

// AppendLine validates r and appends it to dst as one line of NDJSON, "\n"
// included, in the schema version of this package whatever r.SchemaVersion says.
// It keeps the number text, member order and escapes of Details and drops only
// the white space between its tokens. On an error it returns dst as it was; what
// lies between its length and its capacity may have changed.
//
// The line is what encoding/json makes of a Record without escaping HTML, at a fraction of the
// cost. Nothing is allocated while dst has room, except for a map of more than 16 members and for
// Details nested deeper than 64.
func (r *Record) AppendLine(dst []byte) ([]byte, error) {
	if !r.valid() {
		return dst, r.invalid()
	}
	return r.appendLine(dst, &pairMaps{}), nil
}

// appendLine appends the line of r, which must be valid: every member that is set, in the
// order of the fields. maps are the members that r does not have in its own.
func (r *Record) appendLine(b []byte, maps *pairMaps) []byte {
	begin := len(b)
	b = appendText(b, `,"id":`, r.ID)
	b = appendJSON(b, `,"details":`, r.Details)
	b = appendText(b, `,"eventType":`, r.EventType)
	b = appendText(b, `,"group":`, r.Group)
	b = appendText(b, `,"version":`, r.Version)
	b = appendText(b, `,"kind":`, r.Kind)
	b = appendText(b, `,"name":`, r.Name)
	b = appendText(b, `,"namespace":`, r.Namespace)
	b = appendText(b, `,"message":`, r.Message)
	b = appendText(b, `,"enforcementAction":`, r.EnforcementAction)
	b = appendTexts(b, `,"enforcementActions":`, r.EnforcementActions)
	b = appendMap(b, `,"constraintAnnotations":`, r.ConstraintAnnotations, maps.constraint)
	b = appendText(b, `,"resourceGroup":`, r.ResourceGroup)
	b = appendText(b, `,"resourceAPIVersion":`, r.ResourceAPIVersion)
	b = appendText(b, `,"resourceKind":`, r.ResourceKind)
	b = appendText(b, `,"resourceNamespace":`, r.ResourceNamespace)
	b = appendText(b, `,"resourceName":`, r.ResourceName)
	b = appendMap(b, `,"resourceLabels":`, r.ResourceLabels, maps.labels)
	b = appendTime(b, `,"timestamp":`, r.Timestamp)
	b = appendText(b, `,"operation":`, r.Operation)
	b = appendText(b, `,"requestResource":`, r.RequestResource)
	b = appendText(b, `,"requestSubresource":`, r.RequestSubresource)
	b = appendText(b, `,"requestUsername":`, r.RequestUsername)
	b = appendText(b, `,"requestUserUID":`, r.RequestUserUID)
	b = appendTexts(b, `,"requestUserGroups":`, r.RequestUserGroups)
	if r.DryRun != nil {
		b = strconv.AppendBool(append(b, `,"dryRun":`...), *r.DryRun)
	}
	b = strconv.AppendInt(append(b, `,"schemaVersion":`...), SchemaVersion, 10)
	b = appendText(b, `,"decision":`, string(r.Decision))
	b = appendText(b, `,"process":`, string(r.Process))
	b = appendText(b, `,"cluster":`, r.Cluster)
	b = appendText(b, `,"pod":`, r.Pod)
	b = appendText(b, `,"auditID":`, r.AuditID)
	b = appendText(b, `,"requestUID":`, r.RequestUID)
	b = appendText(b, `,"template":`, r.Template)
	b = appendText(b, `,"resourceUID":`, r.ResourceUID)
	if r.Sequence != 0 {
		b = strconv.AppendUint(append(b, `,"sequence":`...), r.Sequence, 10)
	}
	b = r.appendReview(b, maps.audit)
	b[begin] = '{' // instead of the comma in front of the first member: schemaVersion is always there
	return append(b, "}\n"...)
}

// appendReview appends the members that records of admission reviews have. They are on
// their own because the compiler inlines less in a function that is larger than appendLine.
func (r *Record) appendReview(b []byte, annotations []pair) []byte {
	b = appendInt(b, `,"code":`, r.Code)
	b = appendTexts(b, `,"warnings":`, r.Warnings)
	b = appendMap(b, `,"auditAnnotations":`, r.AuditAnnotations, annotations)
	b = appendText(b, `,"patchType":`, r.PatchType)
	b = appendInt(b, `,"patchBytes":`, r.PatchBytes)
	b = appendFloat(b, `,"durationSeconds":`, r.DurationSeconds)
	b = appendText(b, `,"webhookPath":`, r.WebhookPath)
	b = appendText(b, `,"failure":`, r.Failure)
	b = appendJSON(b, `,"object":`, r.Object)
	b = appendJSON(b, `,"oldObject":`, r.OldObject)
	b = appendJSON(b, `,"patch":`, r.Patch)
	b = appendTexts(b, `,"omitted":`, r.Omitted)
	return b
}

// appendText appends a member unless its text is empty. It is small enough to be
// inlined, and a short name then becomes a store or two. The name comes with its
// comma, quotes and colon in this function and the next ones.
func appendText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return rawjson.AppendString(append(b, name...), s)
}

func appendTexts(b []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(b, name...)
	for i, s := range list {
		b = rawjson.AppendString(append(b, separator("[,", i)), s)
	}
	return append(b, ']')
}

// pair is a member of a map.
type pair struct{ key, value string }

// pairMaps are the maps of a record as pairs, in any order.
type pairMaps struct {
	constraint []pair // ConstraintAnnotations
	labels     []pair // ResourceLabels
	audit      []pair // AuditAnnotations
}

// appendMap appends a member in the order of its keys, so that equal records
// make equal lines. It has those of m, or else pairs.
func appendMap(b []byte, name string, m map[string]string, pairs []pair) []byte {
	if len(m)+len(pairs) == 0 {
		return b
	}
	var few [16]pair // on the stack; resources rarely have more labels
	pairs = appendPairs(append(few[:0], pairs...), m)
	sortPairs(pairs)
	b = append(b, name...)
	for i, p := range pairs {
		b = rawjson.AppendString(append(b, separator("{,", i)), p.key)
		b = rawjson.AppendString(append(b, ':'), p.value)
	}
	return append(b, '}')
}

func appendPairs(pairs []pair, m map[string]string) []pair {
	pairs = slices.Grow(pairs, len(m))
	for k, v := range m {
		pairs = append(pairs, pair{k, v})
	}
	return pairs
}

func sortPairs(pairs []pair) {
	if len(pairs) > 16 {
		slices.SortFunc(pairs, func(x, y pair) int { return strings.Compare(x.key, y.key) })
		return
	}
	for i := 1; i < len(pairs); i++ { // so few are in order soonest by insertion
		p := pairs[i]
		at := i
		for ; at > 0 && p.key < pairs[at-1].key; at-- {
			pairs[at] = pairs[at-1]
		}
		pairs[at] = p
	}
}

func appendInt(b []byte, name string, n int) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), int64(n), 10)
}

// appendFloat writes f as encoding/json does: with an exponent where it is very small or
// very large, and that without leading zeros.
func appendFloat(b []byte, name string, f float64) []byte {
	if f == 0 {
		return b
	}
	b = append(b, name...)
	if size := math.Abs(f); 1e-6 <= size && size < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	if last := len(b) - 1; b[last-1] == '0' && b[last-2] == '-' { // 1e-07
		b[last-1] = b[last]
		b = b[:last]
	}
	return b
}

// separator returns what stands before item i: the first byte of s before the
// first item, the second before any other.
func separator(s string, i int) byte { return s[min(i, 1)] }

// appendTime appends a member unless t is not set. RFC 3339 must be able to express t.
func appendTime(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	b = append(b, name...)
	if isUTC(t) {
		return appendUTC(b, t)
	}
	b = t.AppendFormat(append(b, '"'), time.RFC3339Nano)
	return append(b, '"')
}

// isUTC reports whether t is a time for appendUTC: its zone is UTC, whatever it is
// called, and RFC 3339 can express its year.
func isUTC(t time.Time) bool {
	if t.Location() != time.UTC {
		if _, offset := t.Zone(); offset != 0 {
			return false
		}
	}
	return yearZero <= t.Unix() && t.Unix() < yearTenThousand
}

// The years that RFC 3339 can express, in seconds from 1970.
const (
	yearZero        = -719528 * 24 * 3600
	yearTenThousand = 2932897 * 24 * 3600
)

// appendUTC appends what AppendText does of a time that isUTC, at a third of the
// cost.
func appendUTC(b []byte, t time.Time) []byte {
	const form = `"0000-00-00T00:00:00.000000000`
	b = append(b, form...)
	text := (*[len(form)]byte)(b[len(b)-len(form):])
	year, month, day := t.UTC().Date()
	second := uint((t.Unix() - yearZero) % (24 * 3600))
	nanosecond := uint(t.Nanosecond())
	putTwo(text[1:3], uint(year)/100)
	putTwo(text[3:5], uint(year)%100)
	putTwo(text[6:8], uint(month))
	putTwo(text[9:11], uint(day))
	putTwo(text[12:14], second/3600)
	putTwo(text[15:17], second/60%60)
	putTwo(text[18:20], second%60)
	if nanosecond == 0 {
		return append(b[:len(b)-len(".000000000")], 'Z', '"')
	}
	text[21] = byte('0' + nanosecond/1e8)
	putTwo(text[22:24], nanosecond/1e6%100)
	putTwo(text[24:26], nanosecond/1e4%100)
	putTwo(text[26:28], nanosecond/1e2%100)
	putTwo(text[28:30], nanosecond%100)
	end := len(b)
	for b[end-1] == '0' {
		end--
	}
	return append(b[:end], 'Z', '"')
}

// putTwo writes n, which has at most two digits.
func putTwo(text []byte, n uint) {
	text[0], text[1] = byte('0'+n/10), byte('0'+n%10)
}

// appendJSON appends a member unless v is empty. v must be valid JSON.
func appendJSON(b []byte, name string, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return rawjson.AppendCompact(append(b, name...), v)
}
