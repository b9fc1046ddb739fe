package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
)

// recordKey stands in front of the record: a quote within a string is escaped, so it stands
// nowhere before.
const recordKey = `,"record":`

// AppendRecord appends r as a JSON object that says where the record came from and has
// the record unchanged. The queue stores only JSON objects.
func AppendRecord(b []byte, r segment.Record) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	b = append(b, `,"id":"`...)
	b = r.AppendID(b)
	b = append(b, `","source":`...)
	b = appendString(b, r.Source)
	b = append(b, `,"producer":`...)
	b = appendString(b, r.Producer)
	b = append(b, `,"received":"`...)
	b = r.Received.AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	b = append(b, recordKey...)
	b = append(b, r.Data...)
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a form
	}
	return append(b, text...)
}

// ParseRecord reads what AppendRecord has made. Data is part of line.
func ParseRecord(line []byte) (r segment.Record, err error) {
	head, data, ok := bytes.Cut(line, []byte(recordKey))
	data, ended := bytes.CutSuffix(data, []byte("}"))
	if !ok || !ended {
		return r, errors.New("not a record of a queue")
	}
	var said struct {
		Seq              uint64
		ID               string
		Source, Producer string
		Received         time.Time
	}
	if err := json.Unmarshal(append(bytes.Clone(head), '}'), &said); err != nil {
		return r, fmt.Errorf("not a record of a queue: %w", err)
	}
	incarnation, ok := strings.CutSuffix(said.ID, "-"+strconv.FormatUint(said.Seq, 10))
	if !ok {
		return r, errors.New("not a record of a queue: its id has another seq")
	}
	return segment.Record{Seq: said.Seq, Incarnation: incarnation, Source: said.Source, Producer: said.Producer, Received: said.Received, Data: data}, nil
}
