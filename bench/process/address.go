package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/trial"
)

// RequestWait bounds one HTTP request, however busy the machine is.
const RequestWait = 10 * time.Second

// Listen listens on a TCP address, a port of the kernel's choice where that is 0.
func Listen(address string) net.Listener { return trial.Must(net.Listen("tcp", address)) }

// Serve serves HTTP until the measurement ends.
func Serve(t *trial.T, l net.Listener, handler http.Handler) {
	server := &http.Server{ReadHeaderTimeout: RequestWait, Handler: handler}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // until it is closed
	t.Cleanup(func() error {
		_ = server.Close() // and its listener
		serving.Wait()
		return nil
	})
}

// startWait is how long a program may take to start on a busy machine.
const startWait = time.Minute

// AwaitSocket returns when the Unix socket takes a connection. It looks once in a pause.
func AwaitSocket(t *trial.T, socket string, pause time.Duration) {
	t.Poll("for "+socket, pause, startWait, func() bool {
		nc, err := net.Dial("unix", socket)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}

// FreeAddress returns a loopback address that nobody listens on. Its port is none of
// those that the kernel gives to clients and to listeners without one: between now and
// its use nobody gets it by chance.
func FreeAddress() string {
	const first, last, attempts = 10_000, 30_000, 100
	var err error
	for range attempts {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first))); err == nil {
			trial.Check(l.Close())
			return l.Addr().String()
		}
	}
	trial.Check(err)
	return ""
}
