package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

const (
	producers = 8
	// recordBytes is the length of every record with its newline.
	recordBytes = 1 << 10
	// idDigits is how many digits name a record: its producer and its number there.
	idDigits = 12
	// perProducer is how many records a producer can have.
	perProducer = 1_000_000_000
	// blockRecords is how many records of a producer differ in more than their id.
	blockRecords = 1 << 8
)

// recordFormat is that of the records of "make bench", so that the figures of both
// can be laid side by side: what Gatekeeper says of a denied request.
const recordFormat = `{"id":"7f3c1d9a-0b42-4c55-9e1b-%[1]s","details":{"missing_labels":["owner","team"],"container":"%[2]s-%[3]d","allowed":["registry.example.test/","mirror.example.test/"]},` +
	`"eventType":"violation_admission","group":"constraints.gatekeeper.sh","version":"v1beta1","kind":"K8sRequiredLabels","name":"%[2]s-must-have-owner",` +
	`"message":"you must provide labels: {\"owner\", \"team\"}%[4]s","enforcementAction":"deny","constraintAnnotations":{"policy.example.test/id":"POL-%04[3]d","policy.example.test/severity":"high"},` +
	`"resourceAPIVersion":"v1","resourceKind":"Pod","resourceNamespace":"%[2]s","resourceName":"%[2]s-5d9c7b6f4-%[3]d","resourceLabels":{"app":"%[2]s","tier":"backend"},` +
	`"timestamp":"2026-11-21T08:07:16.213267926Z","operation":"CREATE","requestResource":"pods","requestUsername":"system:serviceaccount:kube-system:replicaset-controller",` +
	`"requestUserGroups":["system:serviceaccounts","system:authenticated"],"dryRun":false}`

// idAt is where the digits of the id begin in every record.
var idAt = strings.Index(recordFormat, "%[1]s")

// block is a series of records of one producer, each a line of recordBytes. The
// producer goes through it again and again, so that it costs the machine little.
type block struct {
	producer int
	lines    []byte
}

func newBlock(producer int) *block {
	namespaces := []string{"shop", "payments", "search", "inventory", "ml-training", "ingress"}
	b := &block{producer: producer}
	for i := range blockRecords {
		n := producer*blockRecords + i
		line := func(filler string) string {
			return fmt.Sprintf(recordFormat, strings.Repeat("0", idDigits), namespaces[n%len(namespaces)], n, filler)
		}
		b.lines = append(b.lines, line(strings.Repeat(".", recordBytes-1-len(line(""))))...)
		b.lines = append(b.lines, '\n')
	}
	return b
}

// next returns the n records from number first on, fewer where the block ends, with
// their ids written in. They are valid until the next call.
func (b *block) next(first, n int) []byte {
	from := first % blockRecords
	n = min(n, blockRecords-from)
	lines := b.lines[from*recordBytes : (from+n)*recordBytes]
	for i := range n {
		id := b.producer*perProducer + first + i
		for at := i*recordBytes + idAt + idDigits - 1; at >= i*recordBytes+idAt; at, id = at-1, id/10 {
			lines[at] = byte('0' + id%10)
		}
	}
	return lines
}

// is reports whether line, without its newline, is a record of this block, byte for
// byte but for its id.
func (b *block) is(line []byte, number int) bool {
	at := number % blockRecords * recordBytes
	want := b.lines[at : at+recordBytes-1]
	return len(line) == len(want) && bytes.Equal(line[:idAt], want[:idAt]) && bytes.Equal(line[idAt+idDigits:], want[idAt+idDigits:])
}

// recordID says whose record a line is, and which.
func recordID(line []byte) (producer, number int, ok bool) {
	if len(line) < idAt+idDigits {
		return 0, 0, false
	}
	id, err := strconv.Atoi(string(line[idAt : idAt+idDigits]))
	if err != nil || id < 0 || id >= producers*perProducer {
		return 0, 0, false
	}
	return id / perProducer, id % perProducer, true
}
