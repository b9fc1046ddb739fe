package fakekafka

import (
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Point is the nth request of a kind, from 1, by any client.
type Point struct {
	Key kmsg.Key
	Nth int
}

// String names p as in Produce#2.
func (p Point) String() string { return fmt.Sprintf("%s#%d", p.Key.Name(), p.Nth) }

// Judged are the kinds of requests that are counted.
var Judged = []kmsg.Key{
	kmsg.FindCoordinator, kmsg.InitProducerID, kmsg.OffsetFetch, kmsg.AddPartitionsToTxn, kmsg.Produce,
	kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn,
}

// Effect is what happens at a point.
type Effect uint8

// The effects.
const (
	CutBefore   Effect = iota // the connection ends, and the broker never has the request
	CutAfter                  // the request is carried out, and the connection ends instead of an answer
	Late                      // the connection ends, and the broker has the request after Wait others
	Answer                    // Code instead of carrying it out, Wait times more for such requests
	AnswerAfter               // the request is carried out, and answered with Code
	DieBefore                 // the client ends for ever, and the broker never has the request
	DieAfter                  // the request is carried out, and the client ends for ever
	StopBefore                // the client stops with the request under way to the broker
	StopAfter                 // the request is carried out, and the client stops with the answer under way
	Expire                    // the coordinator ends the client's transaction and fences its epoch, then the request is carried out
	MoveBefore                // other brokers become the coordinators, or the leader for Produce, then the request arrives
	Prepare                   // of EndTxn: it is answered, and completes when it has been asked for Wait times
	PrepareLost               // the same, and the answer is lost
	Interrupt                 // the client is told, see OnInterrupt, while the request is carried out
	Forget                    // the offsets of the group are deleted, as when they expire, then the request arrives
)

var effectNames = [...]string{
	"CutBefore", "CutAfter", "Late", "Answer", "AnswerAfter", "DieBefore", "DieAfter", "StopBefore", "StopAfter",
	"Expire", "MoveBefore", "Prepare", "PrepareLost", "Interrupt", "Forget",
}

// String names e.
func (e Effect) String() string { return effectNames[e] }

// Kills says whether the client that meets e is gone.
func (e Effect) Kills() bool { return e == DieBefore || e == DieAfter }

// Fault is an effect at a point.
type Fault struct {
	At     Point
	Effect Effect
	Code   *kerr.Error // of Answer and AnswerAfter
	Wait   int
}

// String names f as in Produce#2-CutAfter.
func (f Fault) String() string {
	name := fmt.Sprintf("%s-%s", f.At, f.Effect)
	if f.Code != nil {
		name += "-" + f.Code.Message
	}
	if f.Wait > 0 {
		name += fmt.Sprintf("-%d", f.Wait)
	}
	return name
}

// fault is one that is to come.
type fault struct {
	Fault
	met      chan struct{} // closed when it has happened
	happened func()        // closes met, once
}

func newFault(f Fault) *fault {
	met := make(chan struct{})
	return &fault{f, met, sync.OnceFunc(func() { close(met) })}
}

// Arm has faults happen, each once. The channels it returns are closed when they have.
func (c *Cluster) Arm(faults ...Fault) (met []<-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range faults {
		armed := newFault(f)
		c.faults[f.At] = armed
		met = append(met, armed.met)
	}
	return met
}

// OnDeath has told called when client dies. It must not block.
func (c *Cluster) OnDeath(client string, told func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.died[client] = told
}

// OnInterrupt has told called when client is interrupted. It must not block.
func (c *Cluster) OnInterrupt(client string, told func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupts[client] = told
}

// Kill ends client: its connections are cut, and it gets no others.
func (c *Cluster) Kill(client string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kill(client)
}

func (c *Cluster) kill(client string) {
	if c.dead[client] {
		return
	}
	c.dead[client] = true
	for conn := range c.conns {
		if conn.client == client {
			conn.Conn.Close()
		}
	}
	if told := c.died[client]; told != nil {
		told()
	}
}

// Continue has a client that is stopped go on.
func (c *Cluster) Continue(client string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stopped, ok := c.stopped[client]; ok {
		close(stopped)
		delete(c.stopped, client)
	}
}
