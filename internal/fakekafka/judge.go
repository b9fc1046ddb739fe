package fakekafka

import (
	"bytes"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lateRequest is a request whose connection is gone and that the broker has not had yet.
type lateRequest struct {
	*request
	address string // of the broker
	wait    int    // for so many other requests
}

// judge returns what the broker is given of req: nothing, when it has been answered already.
func (c *Cluster) judge(on *conn, req *request) (frame []byte, err error) {
	if err := c.passes(req.client); err != nil {
		return nil, err
	}
	c.alias(req.Request)
	key, address := kmsg.Key(req.Key()), on.LocalAddr().String()

	c.mu.Lock()
	c.counts[key]++
	at := Point{key, c.counts[key]}
	f := c.faults[at]
	delete(c.faults, at)
	due := c.dueRequests()
	c.mu.Unlock()

	for _, l := range due {
		if err := c.deliver(l); err != nil {
			return nil, err
		}
	}
	if f != nil {
		kept, err := c.befall(on, req, f)
		if f.Effect != StopAfter && f.Effect != DieAfter {
			f.happened()
		}
		if kept || err != nil {
			return nil, err
		}
	}
	res, err := c.instead(req, address)
	if err != nil || res != nil {
		if err == nil {
			err = on.say(req, res)
		}
		return nil, err
	}
	return req.bytes(), nil
}

// instead answers req for the broker at address. A nil answer leaves req to the broker.
func (c *Cluster) instead(req *request, address string) (kmsg.Response, error) {
	if res := c.refuse(req); res != nil {
		return res, nil
	}
	return c.coordinate(req, address)
}

// befall has f happen to req. kept says that the broker is not given req.
func (c *Cluster) befall(on *conn, req *request, f *fault) (kept bool, err error) {
	address := on.LocalAddr().String()
	switch f.Effect {
	case CutBefore:
		return true, errCut
	case CutAfter:
		on.onAnswer(lose)
	case Late:
		c.mu.Lock()
		c.late = append(c.late, &lateRequest{req, address, f.Wait})
		c.mu.Unlock()
		return true, errCut
	case Answer:
		if f.Wait > 0 {
			c.mu.Lock()
			again := newFault(f.Fault)
			again.At.Nth++
			again.Wait--
			c.faults[again.At] = again
			c.mu.Unlock()
		}
		return true, on.say(req, Refusal(req.Request, f.Code.Code))
	case AnswerAfter:
		on.onAnswer(func([]byte) ([]byte, error) { return req.answer(Refusal(req.Request, f.Code.Code)), nil })
	case DieBefore:
		c.Kill(req.client)
		return true, errCut
	case DieAfter:
		on.onAnswer(func([]byte) ([]byte, error) {
			c.Kill(req.client)
			f.happened()
			return nil, errCut
		})
	case StopBefore:
		c.stop(req.client)
		f.happened()
		return false, c.passes(req.client)
	case StopAfter:
		on.onAnswer(func(answer []byte) ([]byte, error) {
			c.stop(req.client)
			f.happened()
			return answer, nil
		})
	case Expire:
		return false, c.expire(req.Request)
	case MoveBefore:
		return false, c.move(req.Request)
	case Interrupt:
		c.mu.Lock()
		told := c.interrupts[req.client]
		c.mu.Unlock()
		if told != nil {
			told()
		}
	case Forget:
		return false, c.forget(req.Request)
	case Prepare, PrepareLost:
		prepared, err := c.prepare(req, address, f.Wait)
		switch {
		case err != nil || !prepared:
			return false, err
		case f.Effect == PrepareLost:
			return true, errCut
		}
		return true, on.say(req, req.ResponseKind())
	}
	return false, nil
}

// Refuse has the brokers refuse every batch with a record that contains text, which is not
// compressed; empty: none.
func (c *Cluster) Refuse(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = []byte(text)
}

func (c *Cluster) refuse(req *request) kmsg.Response {
	p, ok := req.Request.(*kmsg.ProduceRequest)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range p.Topics {
		for _, partition := range t.Partitions {
			if len(c.refused) > 0 && bytes.Contains(partition.Records, c.refused) {
				return Refusal(p, kerr.InvalidRecord.Code)
			}
		}
	}
	return nil
}

func (c *Cluster) stop(client string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped[client] == nil {
		c.stopped[client] = make(chan struct{})
	}
}

// dueRequests takes the late requests that have waited long enough. c.mu is held.
func (c *Cluster) dueRequests() (due []*lateRequest) {
	var later []*lateRequest
	for _, l := range c.late {
		if l.wait--; l.wait < 0 {
			due = append(due, l)
		} else {
			later = append(later, l)
		}
	}
	c.late = later
	return due
}

// Settle has everything happen that is still to come: late requests arrive, and commits that
// are prepared are completed.
func (c *Cluster) Settle() error {
	c.mu.Lock()
	late := c.late
	c.late = nil
	var prepared []string
	for id := range c.commits {
		prepared = append(prepared, id)
	}
	clear(c.hidden)
	c.mu.Unlock()
	for _, l := range late {
		if err := c.deliver(l); err != nil {
			return err
		}
	}
	for _, id := range prepared {
		if err := c.complete(id); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.hidden)
	return nil
}

// deliver gives a broker a late request. Nobody waits for the answer, but what comes behind it.
func (c *Cluster) deliver(l *lateRequest) error {
	res, err := c.instead(l.request, l.address)
	if err != nil || res != nil {
		return err
	}
	_, err = c.call(l.address, l.Request)
	return err
}

// call makes a request of the package's own.
func (c *Cluster) call(address string, r kmsg.Request) (kmsg.Response, error) {
	raw, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	req := &request{Request: r, client: own}
	if _, err := raw.Write(req.bytes()); err != nil {
		return nil, err
	}
	res, err := readAnswer(raw, r)
	if err != nil {
		return nil, fmt.Errorf("answer to %s: %w", kmsg.Key(r.Key()).Name(), err)
	}
	return res, nil
}

// Refusal answers req with code wherever it has one.
func Refusal(req kmsg.Request, code int16) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		res := req.ResponseKind().(*kmsg.ProduceResponse)
		res.Topics = each(req.Topics, func(t kmsg.ProduceRequestTopic, rt *kmsg.ProduceResponseTopic) {
			rt.Topic = t.Topic
			rt.Partitions = each(t.Partitions, func(p kmsg.ProduceRequestTopicPartition, rp *kmsg.ProduceResponseTopicPartition) {
				rp.Default()
				rp.Partition, rp.ErrorCode, rp.BaseOffset = p.Partition, code, -1
			})
		})
		return res
	case *kmsg.AddPartitionsToTxnRequest:
		res := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
		res.Topics = each(req.Topics, func(t kmsg.AddPartitionsToTxnRequestTopic, rt *kmsg.AddPartitionsToTxnResponseTopic) {
			rt.Topic = t.Topic
			rt.Partitions = each(t.Partitions, func(p int32, rp *kmsg.AddPartitionsToTxnResponseTopicPartition) {
				rp.Partition, rp.ErrorCode = p, code
			})
		})
		return res
	case *kmsg.TxnOffsetCommitRequest:
		res := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		res.Topics = each(req.Topics, func(t kmsg.TxnOffsetCommitRequestTopic, rt *kmsg.TxnOffsetCommitResponseTopic) {
			rt.Topic = t.Topic
			rt.Partitions = each(t.Partitions, func(p kmsg.TxnOffsetCommitRequestTopicPartition, rp *kmsg.TxnOffsetCommitResponseTopicPartition) {
				rp.Partition, rp.ErrorCode = p.Partition, code
			})
		})
		return res
	}
	switch res := req.ResponseKind().(type) {
	case *kmsg.FindCoordinatorResponse:
		res.ErrorCode = code
		return res
	case *kmsg.InitProducerIDResponse:
		res.ErrorCode, res.ProducerID = code, -1
		return res
	case *kmsg.AddOffsetsToTxnResponse:
		res.ErrorCode = code
		return res
	case *kmsg.EndTxnResponse:
		res.ErrorCode = code
		return res
	case *kmsg.OffsetFetchResponse:
		res.ErrorCode = code
		return res
	}
	panic(fmt.Sprintf("%T cannot be refused", req))
}

// noOffsets answers an OffsetFetch of a group without offsets; a partition that is asked for
// by name gets code.
func noOffsets(req *kmsg.OffsetFetchRequest, code int16) *kmsg.OffsetFetchResponse {
	res := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	res.Topics = each(req.Topics, func(t kmsg.OffsetFetchRequestTopic, rt *kmsg.OffsetFetchResponseTopic) {
		rt.Topic = t.Topic
		rt.Partitions = each(t.Partitions, func(p int32, rp *kmsg.OffsetFetchResponseTopicPartition) {
			rp.Default()
			rp.Partition, rp.Offset, rp.ErrorCode = p, -1, code
		})
	})
	return res
}

// each answers each part of a request.
func each[Q, A any](asked []Q, answer func(Q, *A)) []A {
	answers := make([]A, len(asked))
	for i, q := range asked {
		answer(q, &answers[i])
	}
	return answers
}
