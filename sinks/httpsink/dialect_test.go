package httpsink

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	collectlogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/docket-export/docket/sinks/httpsink/encoding"
)

// dialect is how a receiver of one encoding reads a request, down to the bytes
// of the records, and how it answers.
type dialect struct {
	encoding    string
	compression string
	decode      func(body []byte) ([]string, error)
	status      int                      // when it has accepted them
	contentType string                   // empty: none
	answer      func(records int) string // nil: nothing
}

// head writes how an acceptance begins.
func (d dialect) head(w http.ResponseWriter) {
	if d.contentType != "" {
		w.Header().Set("Content-Type", d.contentType)
	}
	w.WriteHeader(d.status)
}

func (d dialect) answerDecides() bool {
	e, err := encoding.New(d.encoding, encoding.Config{})
	if err != nil {
		panic(err)
	}
	return e.AnswerDecides
}

func dialects() []dialect {
	const none = compressNone
	return []dialect{
		{"ndjson", none, decodeLines, 200, "", nil},
		{"jsonArray", none, decodeElements, 201, "text/plain", nil},
		{"cloudEvents", compressZstd, decodeCloudEvents, 202, "", nil},
		{"otlp", compressGzip, decodeOTLP, 200, "application/x-protobuf", nil},
		{"splunkHEC", none, decodeHEC, 200, "application/json", func(int) string { return `{"text":"Success","code":0}` }},
		{"elasticsearchBulk", compressGzip, decodeBulk, 200, "application/json", func(records int) string {
			return `{"errors":false,"items":[` + strings.Repeat(`{"create":{"status":201}},`, records-1) + `{"create":{"status":201}}]}`
		}},
		{"loki", none, decodeLoki, 204, "", nil},
	}
}

// decodeElements returns the elements of a JSON array as they are written, white
// space included.
func decodeElements(body []byte) ([]string, error) {
	if !json.Valid(body) || body[0] != '[' {
		return nil, fmt.Errorf("not a JSON array: %.200s", body)
	}
	var list []string
	depth, quoted, from := 0, false, 1
	for i := 1; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
		case depth == 0 && (c == ',' || c == ']'):
			list = append(list, string(body[from:i]))
			from = i + 1
		}
	}
	return list, nil
}

// lastMember returns what follows name in each object of list, up to its brace.
func lastMember(list []string, name string) ([]string, error) {
	for i, object := range list {
		_, value, found := strings.Cut(object, `,"`+name+`":`)
		if !found || !strings.HasSuffix(value, "}") {
			return nil, fmt.Errorf("%.200s does not end in %s", object, name)
		}
		list[i] = strings.TrimSuffix(value, "}")
	}
	return list, nil
}

func decodeCloudEvents(body []byte) ([]string, error) {
	events, err := decodeElements(body)
	if err != nil {
		return nil, err
	}
	return lastMember(events, "data")
}

func decodeHEC(body []byte) ([]string, error) {
	events, err := decodeLines(body)
	if err != nil {
		return nil, err
	}
	return lastMember(events, "event")
}

func decodeBulk(body []byte) ([]string, error) {
	lines, err := decodeLines(body)
	if err != nil {
		return nil, err
	}
	if len(lines)%2 != 0 {
		return nil, fmt.Errorf("%d lines, want pairs", len(lines))
	}
	var records []string
	for i := 0; i < len(lines); i += 2 {
		if !strings.HasPrefix(lines[i], `{"create":{`) {
			return nil, fmt.Errorf("line %d is %s, want an action", i, lines[i])
		}
		records = append(records, lines[i+1])
	}
	return records, nil
}

func decodeOTLP(body []byte) ([]string, error) {
	var request collectlogs.ExportLogsServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	var records []string
	for _, r := range request.GetResourceLogs() {
		for _, s := range r.GetScopeLogs() {
			for _, l := range s.GetLogRecords() {
				records = append(records, l.GetBody().GetStringValue())
			}
		}
	}
	return records, nil
}

func decodeLoki(body []byte) ([]string, error) {
	var push struct {
		Streams []struct{ Values [][]json.RawMessage }
	}
	if err := json.Unmarshal(body, &push); err != nil {
		return nil, err
	}
	var records []string
	for _, s := range push.Streams {
		for _, v := range s.Values {
			var line string
			if err := json.Unmarshal(v[1], &line); err != nil {
				return nil, err
			}
			records = append(records, line)
		}
	}
	return records, nil
}
