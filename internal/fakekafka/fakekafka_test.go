package fakekafka

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topic = "decisions"
	txnID = "docket-queue-sink"
)

// producer writes in transactions, as a client of the cluster does.
type producer struct {
	t        *testing.T
	cluster  *Cluster
	name     string
	id       int64
	epoch    int16
	sequence int32
}

// do makes a request, and returns its answer or how the connection ended.
func (p *producer) do(node int32, version int16, r kmsg.Request) (kmsg.Response, error) {
	raw, err := net.Dial("tcp", p.cluster.ListenAddrs()[node])
	if err != nil {
		p.t.Fatal(err)
	}
	defer raw.Close()
	r.SetVersion(version)
	if _, err := raw.Write((&request{Request: r, client: p.name}).bytes()); err != nil {
		p.t.Fatal(err)
	}
	return readAnswer(raw, r)
}

// coordinator is that of the transactions, or of the group.
func (p *producer) coordinator(kind int8) int32 {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorType = txnID, kind
	res, err := p.do(0, 2, req)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.(*kmsg.FindCoordinatorResponse).NodeID
}

func (p *producer) begin() error {
	req := kmsg.NewPtrInitProducerIDRequest()
	id := txnID
	req.TransactionalID, req.TransactionTimeoutMillis = &id, 60_000
	answer, err := p.do(p.coordinator(1), 1, req)
	if err != nil {
		return err
	}
	res := answer.(*kmsg.InitProducerIDResponse)
	p.id, p.epoch, p.sequence = res.ProducerID, res.ProducerEpoch, 0
	return kerr.ErrorForCode(res.ErrorCode)
}

// write writes a value in a transaction that ends with position as the offset of the group.
func (p *producer) write(value string, position int64, commit bool) error {
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = txnID, p.id, p.epoch
	add.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	answer, err := p.do(p.coordinator(1), 1, add)
	if err == nil {
		err = kerr.ErrorForCode(answer.(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		return err
	}
	if err := p.produce(value); err != nil {
		return err
	}
	offsets := kmsg.NewPtrAddOffsetsToTxnRequest()
	offsets.TransactionalID, offsets.ProducerID, offsets.ProducerEpoch, offsets.Group = txnID, p.id, p.epoch, txnID
	if answer, err = p.do(p.coordinator(1), 1, offsets); err != nil {
		return err
	}
	if err := kerr.ErrorForCode(answer.(*kmsg.AddOffsetsToTxnResponse).ErrorCode); err != nil {
		return err
	}
	place := kmsg.NewPtrTxnOffsetCommitRequest()
	place.TransactionalID, place.ProducerID, place.ProducerEpoch, place.Group = txnID, p.id, p.epoch, txnID
	place.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: position, LeaderEpoch: -1}}}}
	if answer, err = p.do(p.coordinator(0), 2, place); err != nil {
		return err
	}
	if err := kerr.ErrorForCode(answer.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode); err != nil {
		return err
	}
	return p.end(commit)
}

func (p *producer) end(commit bool) error {
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = txnID, p.id, p.epoch, commit
	answer, err := p.do(p.coordinator(1), 1, end)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.(*kmsg.EndTxnResponse).ErrorCode)
}

func (p *producer) produce(value string) error {
	record := kmsg.Record{Value: []byte(value), Headers: []kmsg.Header{{Key: "k", Value: []byte("v")}}}
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: 1 << 4, ProducerID: p.id, ProducerEpoch: p.epoch,
		FirstSequence: p.sequence, NumRecords: 1, Records: record.AppendTo(nil),
	}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	b.CRC = int32(crc32.Checksum(b.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	id := txnID
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = &id, -1, 1000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: b.AppendTo(nil)}}}}
	answer, err := p.do(p.cluster.LeaderFor(topic, 0), 8, req)
	if err != nil {
		return err
	}
	p.sequence++
	return kerr.ErrorForCode(answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

// offset reads that of the group as a client does, all of them or by name. It is -1 when
// there is none.
func (p *producer) offset(stable, named bool) (int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = txnID, stable
	if named {
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	}
	answer, err := p.do(p.coordinator(0), 7, req)
	if err != nil {
		return 0, err
	}
	res := answer.(*kmsg.OffsetFetchResponse)
	if res.ErrorCode != 0 || len(res.Topics) == 0 {
		return -1, kerr.ErrorForCode(res.ErrorCode)
	}
	found := res.Topics[0].Partitions[0]
	return found.Offset, kerr.ErrorForCode(found.ErrorCode)
}

func start(t *testing.T) (*Cluster, *producer) {
	c := Start(t, 3, 1, topic)
	return c, &producer{t: t, cluster: c, name: "first"}
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s = %v, want %v", what, got, want)
	}
}

func wantCommitted(t *testing.T, c *Cluster, want ...string) {
	t.Helper()
	records, err := c.Committed(topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range records {
		got = append(got, string(r.Value))
	}
	if !slices.Equal(got, want) {
		t.Errorf("committed are %q, want %q", got, want)
	}
}

func TestCommittedLeavesOutAborted(t *testing.T) {
	c, p := start(t)
	wantErr(t, "begin", p.begin(), nil)
	if p.coordinator(0) == p.coordinator(1) {
		t.Error("the transactional id has the coordinator of its group, want another")
	}
	wantErr(t, "write", p.write("1", 1, true), nil)
	wantErr(t, "write", p.write("aborted", 2, false), nil)
	wantErr(t, "write", p.write("2", 3, true), nil)
	c.Arm(Fault{At: Point{kmsg.EndTxn, 4}, Effect: CutBefore})
	wantErr(t, "write whose EndTxn is cut", p.write("open", 4, true), io.EOF)
	if _, err := c.Committed(topic, 0); err == nil {
		t.Error("Committed = nil, want that a transaction is open")
	}
	wantErr(t, "begin", p.begin(), nil)
	wantCommitted(t, c, "1", "2")
	if got, err := c.Offset(txnID, topic, 0); got != 3 || err != nil {
		t.Errorf("Offset = %d, %v, want 3", got, err)
	}
}

// A commit stays prepared until it has been asked for, and then the group lags behind.
func TestPrepare(t *testing.T) {
	for _, effect := range []Effect{Prepare, PrepareLost} {
		t.Run(effect.String(), func(t *testing.T) {
			c, p := start(t)
			if got, err := p.offset(true, true); got != -1 || err != nil {
				t.Errorf("offset of a group without any = %d, %v, want -1", got, err)
			}
			wantErr(t, "begin", p.begin(), nil)
			wantErr(t, "write", p.write("1", 1, true), nil)
			c.Arm(Fault{At: Point{kmsg.EndTxn, 2}, Effect: effect, Wait: 2})
			lost := error(nil)
			if effect == PrepareLost {
				lost = io.EOF
			}
			wantErr(t, "write", p.write("2", 2, true), lost)
			wantErr(t, "begin", p.begin(), kerr.ConcurrentTransactions)
			wantErr(t, "begin", p.begin(), kerr.ConcurrentTransactions)
			wantErr(t, "begin", p.begin(), nil)
			if got, err := p.offset(false, false); got != 1 || err != nil {
				t.Errorf("offset = %d, %v, want 1: the one before", got, err)
			}
			_, err := p.offset(true, true)
			wantErr(t, "stable offset by name", err, kerr.UnstableOffsetCommit)
			if got, err := p.offset(true, false); got != 2 || err != nil {
				t.Errorf("stable offset = %d, %v, want 2", got, err)
			}
			wantCommitted(t, c, "1", "2")
		})
	}
}

// A prepared commit is final: neither a timeout, a new producer nor an abort undoes it.
func TestPreparedCommitIsFinal(t *testing.T) {
	begin := Point{kmsg.InitProducerID, 2}
	tests := map[string]struct {
		fault     Fault
		meanwhile func(*producer) error
		want      error
	}{
		"Expire":     {Fault{At: begin, Effect: Expire}, (*producer).begin, kerr.ConcurrentTransactions},
		"MoveBefore": {Fault{At: begin, Effect: MoveBefore}, (*producer).begin, kerr.NotCoordinator},
		"Late":       {Fault{At: begin, Effect: Late}, (*producer).begin, io.EOF},
		"late abort": {Fault{At: Point{kmsg.EndTxn, 2}, Effect: Late}, func(p *producer) error { return p.end(false) }, io.EOF},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, p := start(t)
			wantErr(t, "begin", p.begin(), nil)
			c.Arm(tt.fault, Fault{At: Point{kmsg.EndTxn, 1}, Effect: Prepare, Wait: 3})
			wantErr(t, "write", p.write("1", 1, true), nil)
			wantErr(t, "what comes before the end", tt.meanwhile(p), tt.want)
			err := p.begin()
			for errors.Is(err, kerr.ConcurrentTransactions) {
				err = p.begin()
			}
			wantErr(t, "begin", err, nil)
			wantErr(t, "write", p.write("2", 2, true), nil)
			wantCommitted(t, c, "1", "2")
		})
	}
}

func TestEffects(t *testing.T) {
	produce := Point{kmsg.Produce, 1}
	tests := map[string]struct {
		fault Fault
		first error // of the transaction that meets it
		then  error // of the same producer, which goes on
		want  []string
	}{
		"CutBefore":   {Fault{At: produce, Effect: CutBefore}, io.EOF, kerr.OutOfOrderSequenceNumber, nil},
		"CutAfter":    {Fault{At: produce, Effect: CutAfter}, io.EOF, nil, []string{"1", "2"}},
		"Late":        {Fault{At: produce, Effect: Late, Wait: 1}, io.EOF, nil, []string{"1", "2"}},
		"Answer":      {Fault{At: produce, Effect: Answer, Code: kerr.NotEnoughReplicas}, kerr.NotEnoughReplicas, nil, []string{"2"}},
		"AnswerAfter": {Fault{At: produce, Effect: AnswerAfter, Code: kerr.RequestTimedOut}, kerr.RequestTimedOut, nil, []string{"1", "2"}},
		"DieAfter":    {Fault{At: produce, Effect: DieAfter}, io.EOF, io.EOF, nil},
		"Expire":      {Fault{At: Point{kmsg.EndTxn, 1}, Effect: Expire}, kerr.ProducerFenced, kerr.ProducerFenced, nil},
		"MoveBefore":  {Fault{At: Point{kmsg.EndTxn, 1}, Effect: MoveBefore}, kerr.NotCoordinator, nil, []string{"1", "2"}},
		"move leader": {Fault{At: produce, Effect: MoveBefore}, kerr.NotLeaderForPartition, nil, []string{"2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, p := start(t)
			wantErr(t, "begin", p.begin(), nil)
			met := c.Arm(tt.fault)
			wantErr(t, "write", p.write("1", 1, true), tt.first)
			<-met[0]
			if p.sequence = 0; len(tt.want) != 1 {
				p.sequence = 1
			}
			if errors.Is(tt.then, io.EOF) {
				wantErr(t, "request of a dead client", p.produce("2"), io.EOF)
				return
			}
			wantErr(t, "write", p.write("2", 2, true), tt.then)
			if tt.then == nil {
				wantCommitted(t, c, tt.want...)
			}
		})
	}
}

// A client that is stopped goes on where it was.
func TestStop(t *testing.T) {
	for _, effect := range []Effect{StopBefore, StopAfter} {
		t.Run(effect.String(), func(t *testing.T) {
			c, zombie := start(t)
			wantErr(t, "begin", zombie.begin(), nil)
			met := c.Arm(Fault{At: Point{kmsg.EndTxn, 1}, Effect: effect})
			ended := make(chan error)
			go func() { ended <- zombie.write("1", 1, true) }()
			<-met[0]
			next := &producer{t: t, cluster: c, name: "second"}
			wantErr(t, "begin", next.begin(), nil)
			wantErr(t, "write", next.write("2", 2, true), nil)
			c.Continue("first")
			want, committed := kerr.ProducerFenced, []string{"2"}
			if effect == StopAfter {
				want, committed = nil, []string{"1", "2"}
			}
			if err := <-ended; want == nil && err != nil || want != nil && !errors.Is(err, want) {
				t.Errorf("write of the zombie = %v, want %v", err, want)
			}
			wantCommitted(t, c, committed...)
		})
	}
}

func TestAnswerCarriesTheCorrelation(t *testing.T) {
	req := &request{Request: kmsg.NewPtrEndTxnRequest(), correlation: 7}
	answer := req.answer(Refusal(req.Request, kerr.NotCoordinator.Code))
	if got := binary.BigEndian.Uint32(answer[4:]); got != 7 {
		t.Errorf("the answer has correlation %d, want 7", got)
	}
}
