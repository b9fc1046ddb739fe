package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/docket-export/docket/bench/record"
)

const (
	// LinesPerRequest are the records of a request of OTLP: the default of its SDKs.
	LinesPerRequest = 512
	// OTLPPath is where requests of OTLP with logs go.
	OTLPPath = "/v1/logs"
)

// otlpClient sends requests over one connection.
func otlpClient(nc net.Conn) *http.Client {
	conns := make(chan net.Conn, 1)
	conns <- nc
	return &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		select {
		case nc := <-conns:
			return nc, nil
		default:
			return nil, errors.New("the connection was closed")
		}
	}}}
}

// postOTLP sends lines, each a log record, and returns when they were taken.
func postOTLP(client *http.Client, lines []byte) error {
	resp, err := client.Post("http://collector"+OTLPPath, "application/x-protobuf", bytes.NewReader(appendOTLP(nil, lines)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	const partial = "\n\x00" // an empty field for the records that were not taken
	if resp.StatusCode != http.StatusOK || len(answer) > 0 && string(answer) != partial {
		return fmt.Errorf("%s: %q", resp.Status, answer)
	}
	return nil
}

// Fields of the messages of OTLP, from the request to the text of a log record:
// resource_logs, scope_logs, log_records, body, string_value.
var otlpFields = []byte{1, 2, 2, 5, 1}

// appendOTLP appends a request with lines, each of record.Bytes, as protocol buffers.
func appendOTLP(dst, lines []byte) []byte {
	text := record.Bytes - 1 // without its newline
	value := fieldLength(text)
	body := fieldLength(value)
	records := fieldLength(body) * (len(lines) / record.Bytes)
	dst = appendField(dst, otlpFields[0], fieldLength(records))
	dst = appendField(dst, otlpFields[1], records)
	for ; len(lines) >= record.Bytes; lines = lines[record.Bytes:] {
		dst = appendField(dst, otlpFields[2], body)
		dst = appendField(dst, otlpFields[3], value)
		dst = appendField(dst, otlpFields[4], text)
		dst = append(dst, lines[:text]...)
	}
	return dst
}

const lengthDelimited = 2

// appendField appends the head of a field of so many bytes.
func appendField(dst []byte, number byte, length int) []byte {
	return binary.AppendUvarint(append(dst, number<<3|lengthDelimited), uint64(length))
}

// fieldLength is how long a field of so many bytes is with its head.
func fieldLength(length int) int { return len(appendField(nil, 1, length)) + length }

// OTLPTexts calls each with the text of every log record of a request.
func OTLPTexts(request []byte, each func(text []byte)) error {
	return otlpTexts(request, otlpFields, each)
}

func otlpTexts(message, path []byte, each func([]byte)) error {
	if len(path) == 0 {
		each(message)
		return nil
	}
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return errOTLP
		}
		message = message[n:]
		var length int // of the value, beside the head
		switch tag & 7 {
		case 0:
			_, length = binary.Uvarint(message)
		case 1:
			length = 8
		case 5:
			length = 4
		case lengthDelimited:
			v, n := binary.Uvarint(message)
			if n <= 0 || v > uint64(len(message)-n) {
				return errOTLP
			}
			message, length = message[n:], int(v)
			if tag>>3 == uint64(path[0]) {
				if err := otlpTexts(message[:length], path[1:], each); err != nil {
					return err
				}
			}
		default:
			return errOTLP
		}
		if length < 0 || length > len(message) {
			return errOTLP
		}
		message = message[length:]
	}
	return nil
}

var errOTLP = errors.New("the request is not of OTLP")
