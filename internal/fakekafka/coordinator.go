package fakekafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// preparedCommit is a commit that the coordinator has taken and not completed yet. It is
// final: later requests wait for it, and a coordinator that takes over completes it.
type preparedCommit struct {
	*request
	group string
	wait  int // until it has been asked for so often
}

// hiddenOffsets are those that a commit has completed and the coordinator of the group does
// not know of yet.
type hiddenOffsets struct {
	before *kmsg.OffsetFetchResponse // what the group had
	wait   int                       // until they have been asked for so often
}

// transactionalID is where req names its transaction, nil when it has none.
func transactionalID(req kmsg.Request) *string {
	switch req := req.(type) {
	case *kmsg.InitProducerIDRequest:
		return req.TransactionalID
	case *kmsg.AddPartitionsToTxnRequest:
		return &req.TransactionalID
	case *kmsg.AddOffsetsToTxnRequest:
		return &req.TransactionalID
	case *kmsg.TxnOffsetCommitRequest:
		return &req.TransactionalID
	case *kmsg.EndTxnRequest:
		return &req.TransactionalID
	case *kmsg.FindCoordinatorRequest:
		if req.CoordinatorType == 1 {
			return &req.CoordinatorKey
		}
	}
	return nil
}

// alias changes the transactional id in req so that another broker is its coordinator than
// that of the group with the same name.
func (c *Cluster) alias(req kmsg.Request) {
	id := transactionalID(req)
	if id == nil {
		return
	}
	c.mu.Lock()
	alias := c.aliases[*id]
	c.mu.Unlock()
	for i := 0; alias == ""; i++ {
		if name := fmt.Sprintf("%d %s", i, *id); i == 20 || c.CoordinatorFor(name) != c.CoordinatorFor(*id) {
			alias = name
		}
	}
	c.mu.Lock()
	c.aliases[*id] = alias
	c.mu.Unlock()
	*id = alias
}

// coordinate answers req in place of a coordinator that has a commit to complete, and
// completes one that was waited for long enough.
func (c *Cluster) coordinate(req *request, address string) (kmsg.Response, error) {
	switch r := req.Request.(type) {
	case *kmsg.OffsetFetchRequest:
		return c.hide(r), nil
	case *kmsg.InitProducerIDRequest, *kmsg.AddPartitionsToTxnRequest, *kmsg.AddOffsetsToTxnRequest, *kmsg.EndTxnRequest:
		id := transactionalID(r)
		if id == nil || address != c.addressOf(c.CoordinatorFor(*id)) {
			return nil, nil
		}
		c.mu.Lock()
		p := c.commits[*id]
		if p == nil {
			c.mu.Unlock()
			return nil, nil
		}
		p.wait--
		complete := p.wait == -1 // later requests wait for this one
		c.mu.Unlock()
		if complete {
			return nil, c.complete(*id)
		}
		return Refusal(r, kerr.ConcurrentTransactions.Code), nil
	}
	return nil, nil
}

// hide answers r as the coordinator of a group does that does not know of a commit yet.
func (c *Cluster) hide(r *kmsg.OffsetFetchRequest) kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hidden[r.Group]
	if h == nil {
		return nil
	}
	if !r.RequireStable {
		return only(r, h.before, 0)
	}
	if h.wait--; h.wait < 0 {
		delete(c.hidden, r.Group)
		return nil
	}
	return only(r, h.before, kerr.UnstableOffsetCommit.Code)
}

// only is what r asks for of all offsets of a group, with code for each.
func only(r *kmsg.OffsetFetchRequest, all *kmsg.OffsetFetchResponse, code int16) kmsg.Response {
	res := noOffsets(r, code)
	if r.Topics == nil {
		res.Topics = all.Topics
		for i := range res.Topics {
			for j := range res.Topics[i].Partitions {
				res.Topics[i].Partitions[j].ErrorCode = code
			}
		}
		return res
	}
	for i, t := range res.Topics {
		for j, p := range t.Partitions {
			for _, at := range all.Topics {
				for _, ap := range at.Partitions {
					if at.Topic == t.Topic && ap.Partition == p.Partition {
						ap.ErrorCode = code
						res.Topics[i].Partitions[j] = ap
					}
				}
			}
		}
	}
	return res
}

// prepare takes the commit that req asks for, when the coordinator would.
func (c *Cluster) prepare(req *request, address string, wait int) (bool, error) {
	end, ok := req.Request.(*kmsg.EndTxnRequest)
	if !ok || !end.Commit {
		return false, nil
	}
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{end.TransactionalID}
	answer, err := c.call(address, describe)
	if err != nil {
		return false, err
	}
	state := answer.(*kmsg.DescribeTransactionsResponse).TransactionStates[0]
	if state.ErrorCode != 0 || state.State != "Ongoing" || state.ProducerID != end.ProducerID || state.ProducerEpoch != end.ProducerEpoch {
		return false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits[end.TransactionalID] = &preparedCommit{req, c.name(end.TransactionalID), wait}
	return true, nil
}

// name is what clients call a transactional id. c.mu is held.
func (c *Cluster) name(alias string) string {
	for name, a := range c.aliases {
		if a == alias {
			return name
		}
	}
	return alias
}

// complete completes a commit, and has its offsets be hidden as often as the commit was asked
// for.
func (c *Cluster) complete(id string) error {
	c.mu.Lock()
	p := c.commits[id]
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	before, err := c.offsets(p.group)
	if err != nil {
		return err
	}
	answer, err := c.call(c.addressOf(c.CoordinatorFor(id)), p.Request)
	if err == nil {
		err = kerr.ErrorForCode(answer.(*kmsg.EndTxnResponse).ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("complete the commit of %q: %w", p.group, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.commits, id)
	c.hidden[p.group] = &hiddenOffsets{before: before, wait: 1}
	return nil
}

func (c *Cluster) addressOf(node int32) string { return c.ListenAddrs()[node] }

func (c *Cluster) nameOf(alias string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name(alias)
}

// expire ends the transaction that r is about as its coordinator does when it takes too long, and
// fences its epoch. Only an open transaction expires: one whose commit is prepared does not.
func (c *Cluster) expire(r kmsg.Request) error {
	id := transactionalID(r) // an alias already
	if id == nil {
		return nil
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = id, 60_000
	c.mu.Lock()
	prepared := c.commits[*req.TransactionalID] != nil
	c.mu.Unlock()
	if prepared {
		return nil
	}
	res, err := c.call(c.addressOf(c.CoordinatorFor(*req.TransactionalID)), req)
	if err == nil {
		err = kerr.ErrorForCode(res.(*kmsg.InitProducerIDResponse).ErrorCode)
	}
	return err
}

// move has other brokers be responsible for what req is about.
func (c *Cluster) move(req kmsg.Request) error {
	if p, ok := req.(*kmsg.ProduceRequest); ok {
		topic, partition := p.Topics[0].Topic, p.Topics[0].Partitions[0].Partition
		return c.MoveTopicPartition(topic, partition, (c.LeaderFor(topic, partition)+1)%int32(len(c.ListenAddrs())))
	}
	key := transactionalID(req)
	switch r := req.(type) {
	case *kmsg.OffsetFetchRequest:
		key = &r.Group
	case *kmsg.TxnOffsetCommitRequest:
		key = &r.Group
	}
	if key == nil {
		return nil
	}
	before := c.CoordinatorFor(*key)
	for range 100 {
		if c.CoordinatorFor(*key) != before {
			return nil
		}
		c.RehashCoordinators()
	}
	return fmt.Errorf("coordinator of %q does not move", *key)
}

// forget deletes the offsets of the group that has the name of the transaction, or of the group,
// that req is about.
func (c *Cluster) forget(req kmsg.Request) error {
	group := ""
	if id := transactionalID(req); id != nil {
		group = c.nameOf(*id)
	}
	switch r := req.(type) {
	case *kmsg.OffsetFetchRequest:
		group = r.Group
	case *kmsg.FindCoordinatorRequest:
		if r.CoordinatorType == 0 {
			group = r.CoordinatorKey
		}
	}
	if group == "" {
		return nil
	}
	all, err := c.offsets(group)
	if err != nil || len(all.Topics) == 0 {
		return err
	}
	del := kmsg.NewPtrOffsetDeleteRequest()
	del.Group = group
	for _, t := range all.Topics {
		topic := kmsg.NewOffsetDeleteRequestTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p.Partition})
		}
		del.Topics = append(del.Topics, topic)
	}
	res, err := c.call(c.addressOf(c.CoordinatorFor(group)), del)
	if err == nil {
		err = kerr.ErrorForCode(res.(*kmsg.OffsetDeleteResponse).ErrorCode)
	}
	return err
}
