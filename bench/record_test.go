package bench

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

const (
	// recordBytes is the length of every record with its newline.
	recordBytes = 1 << 10
	// perBlock is how many records of a producer differ in more than their id.
	perBlock = 1 << 10
)

// The id of a record names its producer and its number there.
const (
	idPrefix     = `{"id":"7f3c1d9a-0b42-4c55-9e1b-`
	idDigits     = 12
	numberDigits = 9
	perProducer  = 1_000_000_000 // numbers that fit into numberDigits
	numberAt     = idEnd - numberDigits
	idEnd        = len(idPrefix) + idDigits
)

// format is that in which Gatekeeper reports a denied request.
const format = idPrefix + `%012[1]d","details":{"missing_labels":["owner","team"],"container":"%[2]s-%[3]d","allowed":["registry.example.test/","mirror.example.test/"]},` +
	`"eventType":"violation_admission","group":"constraints.gatekeeper.sh","version":"v1beta1","kind":"K8sRequiredLabels","name":"%[2]s-must-have-owner",` +
	`"message":"you must provide labels: {\"owner\", \"team\"}%[4]s","enforcementAction":"deny","constraintAnnotations":{"policy.example.test/id":"POL-%04[3]d","policy.example.test/severity":"high"},` +
	`"resourceAPIVersion":"v1","resourceKind":"Pod","resourceNamespace":"%[2]s","resourceName":"%[2]s-5d9c7b6f4-%[3]d","resourceLabels":{"app":"%[2]s","tier":"backend"},` +
	`"timestamp":"2026-11-21T08:07:16.213267926Z","operation":"CREATE","requestResource":"pods","requestUsername":"system:serviceaccount:kube-system:replicaset-controller",` +
	`"requestUserGroups":["system:serviceaccounts","system:authenticated"],"dryRun":false}`

// block is a series of records of one producer. The producer
// goes through it again and again, so that it costs the machine little.
type block []byte

// newBlock makes the block of one producer, of at most a thousand.
func newBlock(producer int) (b block) {
	namespaces := []string{"shop", "payments", "search", "inventory", "ml-training", "ingress"}
	for i := range perBlock {
		n := producer*perBlock + i
		line := func(filler string) string {
			return fmt.Sprintf(format, producer*perProducer, namespaces[n%len(namespaces)], n, filler)
		}
		b = append(b, line(strings.Repeat(".", recordBytes-1-len(line(""))))...)
		b = append(b, '\n')
	}
	return b
}

// next returns the n lines from number first on, of a billion, fewer where the block
// ends, with their ids written in. They are valid until the next call.
func (b block) next(first, n int) []byte {
	from := first % perBlock
	n = min(n, perBlock-from)
	lines := b[from*recordBytes : (from+n)*recordBytes]
	for i := range n {
		digits := lines[i*recordBytes+numberAt : i*recordBytes+idEnd]
		for at, number := numberDigits-1, uint32(first+i); at >= 0; at, number = at-1, number/10 {
			digits[at] = byte('0' + number%10)
		}
	}
	return lines
}

// has reports whether line, without its newline, is the record of that number, byte
// for byte but for its id.
func (b block) has(line []byte, number int) bool {
	at := number % perBlock * recordBytes
	want := b[at : at+recordBytes-1]
	return len(line) == len(want) && bytes.Equal(line[:len(idPrefix)], want[:len(idPrefix)]) && bytes.Equal(line[idEnd:], want[idEnd:])
}

// recordID says whose record a line is, and which; ok is false for one that is no record.
func recordID(line []byte) (producer, number int, ok bool) {
	if len(line) < idEnd || string(line[:len(idPrefix)]) != idPrefix {
		return 0, 0, false
	}
	id, err := strconv.ParseUint(string(line[len(idPrefix):idEnd]), 10, 63)
	return int(id / perProducer), int(id % perProducer), err == nil
}
