package kafkasink

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

// A request carries the records of one partition as a record batch of version 2.
// All numbers are big-endian, and those in records of variable length:
//
//	 0  length of what follows    4  the request's
//	 4  base offset               8  the broker's to say
//	12  length of what follows    4
//	16  leader epoch              4  unknown
//	20  version                   1  2
//	21  CRC-32C of what follows   4
//	25  attributes                2  the compression, and whether it is of a transaction
//	27  number of the last record 4  from 0
//	31  first and latest time     16 the time of sending, for all of them
//	47  id of the producer        8
//	55  its epoch                 2
//	57  number of the first       4  the sequence number that the producer has given it
//	61  number of records         4
//	65  the records, compressed as a whole; each one is
//	      length of what follows
//	      attributes              1  0
//	      time                    1  0: the first time
//	      number                     from 0
//	      key, value, headers
//
// kafka-go can write it too. It takes a record from readers and writes each part
// of a header by itself, which costs several times as much.
const (
	sizeBytes   = 4  // before the batch
	batchHeader = 61 // before the records, without sizeBytes
	atRecords   = sizeBytes + batchHeader
	atCRC       = sizeBytes + 17

	// transactional is the bit of a transaction's batch, in the attributes.
	transactional = 1 << 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stamp is what a batch says of its records as a whole.
type stamp struct {
	codec         kafka.Compression
	time          time.Time // of every record
	producer      producer
	sequence      int32 // of the first record
	transactional bool
}

// recordSet holds a request while it is being made and sent, and is used again
// when the answer has come.
type recordSet struct {
	bytes []byte // the head of the request and the batch
	plain []byte // the records before they are compressed
}

// encode makes a request of head, which is all that stands before the records of its
// one partition, and of records as a batch that is marked with as.
//
// Brokers count retention from the time of as: a backlog older than it would be
// deleted on arrival if its records had the time when docket received them.
func (s *recordSet) encode(head []byte, records []record, as stamp) error {
	s.bytes = append(append(s.bytes[:0], head...), make([]byte, atRecords)...)
	if as.codec == 0 {
		s.bytes = appendRecords(slices.Grow(s.bytes, totalSize(records)), records)
	} else {
		s.plain = appendRecords(slices.Grow(s.plain[:0], totalSize(records)), records)
		if err := s.compress(as.codec); err != nil {
			return fmt.Errorf("compress %d records: %w", len(records), err)
		}
	}
	attributes := uint16(as.codec)
	if as.transactional {
		attributes |= transactional
	}
	const unknown = ^uint32(0) // -1
	millis := uint64(as.time.UnixMilli())
	b := s.bytes[len(head):]
	binary.BigEndian.PutUint32(b[0:], uint32(len(b)-4))
	binary.BigEndian.PutUint32(b[12:], uint32(len(b)-16))
	binary.BigEndian.PutUint32(b[16:], unknown)
	b[20] = 2
	binary.BigEndian.PutUint16(b[25:], attributes)
	binary.BigEndian.PutUint32(b[27:], uint32(len(records)-1))
	binary.BigEndian.PutUint64(b[31:], millis)
	binary.BigEndian.PutUint64(b[39:], millis)
	binary.BigEndian.PutUint64(b[47:], uint64(as.producer.id))
	binary.BigEndian.PutUint16(b[55:], uint16(as.producer.epoch))
	binary.BigEndian.PutUint32(b[57:], uint32(as.sequence))
	binary.BigEndian.PutUint32(b[61:], uint32(len(records)))
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atCRC+4:], castagnoli))
	return nil
}

func appendRecords(dst []byte, records []record) []byte {
	for i := range records {
		r := &records[i]
		dst = binary.AppendVarint(dst, int64(r.body(varintSize(i))))
		dst = append(dst, 0, 0)
		dst = binary.AppendVarint(dst, int64(i))
		dst = append(dst, r.key...)
		dst = binary.AppendVarint(dst, int64(len(r.value)))
		dst = append(dst, r.value...)
		dst = append(dst, r.headers...)
	}
	return dst
}

func (s *recordSet) compress(codec kafka.Compression) error {
	w := codec.Codec().NewWriter(s)
	_, err := w.Write(s.plain)
	if closed := w.Close(); err == nil {
		err = closed
	}
	return err
}

// Write takes what the compressor has done.
func (s *recordSet) Write(p []byte) (int, error) {
	s.bytes = append(s.bytes, p...)
	return len(p), nil
}

// totalSize is what records have in a request at most, uncompressed.
func totalSize(records []record) int {
	total := 0
	for i := range records {
		total += records[i].size()
	}
	return total
}

// requests cuts records into runs of nearly equal size that each fit into room,
// uncompressed. A record that does not is a run of its own: what is too large,
// the broker decides.
func requests(records []record, room int) [][]record {
	total := totalSize(records)
	if total == 0 {
		return nil
	}
	if total <= room {
		return [][]record{records}
	}
	var runs [][]record
	n := total/room + 1
	start, size, before := 0, 0, 0 // of the run; before: of all records so far
	for i := range records {
		next := records[i].size()
		if i > start && (size+next > room || before+next/2 >= total/n*(len(runs)+1)) {
			runs = append(runs, records[start:i])
			start, size = i, 0
		}
		size += next
		before += next
	}
	return append(runs, records[start:])
}
