// Package gatekeeperexport lets Gatekeeper export violations to docket. Its
// Driver has the methods of Gatekeeper's export drivers, so Gatekeeper can add it
// to the drivers it has, under Name, and docket need not import Gatekeeper:
//
//	var supportedDrivers = map[string]driver.Driver{
//		dapr.Name:             dapr.Connections,
//		disk.Name:             disk.Connections,
//		gatekeeperexport.Name: gatekeeperexport.New(gatekeeperexport.Options{}),
//	}
//
// A Connection then names the exporter:
//
//	apiVersion: connection.gatekeeper.sh/v1alpha1
//	kind: Connection
//	metadata: {name: audit-connection, namespace: gatekeeper-system}
//	spec:
//	  driver: docket
//	  config:
//	    address: unix:///run/docket/docket.sock  # required; or tcp://host:port
//	    producer: gatekeeper                     # default; "/" and the pod are added
//	    mode: BlockingStrict                     # default; or Blocking, Batch
//	    timeout: 3s                              # default; of one call
//	    maxBufferedBytes: 8Mi                    # default
//	    keep: [deny, unspecified, warn, dryrun]  # default; see client.Config
//	    tls: {caFile: ..., certFile: ..., keyFile: ..., serverName: ...}
//
// # What nil means
//
// In the modes BlockingStrict and Blocking, Publish returns nil when the record is on the
// exporter's disk. The two are one mode here, because Gatekeeper refuses no request for an export.
// That is the default: what Publish returns is all that Gatekeeper knows, and what it writes into
// the Connection's status. It costs the audit a sync of the exporter's disk for each violation: 0.2
// ms on a fast disk and 1 ms on a common one. 10,000 violations cost 2 to 10 seconds, and take
// longer to find. PublishBatch pays once for the whole batch.
//
// In mode Batch nil means that the record is buffered, and the audit pays microseconds. Publish
// still waits for the record that ends an audit run. Its acknowledgement says that every record
// buffered before it has arrived, so the status after a run still tells whether the run has
// arrived.
//
// Every call has a deadline of its own, because the audit sets none. When it passes, the connection
// is stalled: until the exporter has caught up nothing waits any more. Records are buffered and
// will arrive if the exporter comes back in time, and Publish says at once that they have not
// arrived yet. An audit that meets a dead exporter so loses one timeout and not one for each
// violation. A record that finds no room in the buffer is lost. The client counts it and tells the
// exporter. The least important record goes first, by enforcement action: dryrun, then warn. Any
// other record comes between deny and warn, also the records that begin and end an audit run.
//
// Gatekeeper 3.23 shows only the part of an error before its first colon, and shows the same part
// once. So this part is short, and the same for each error of a kind.
//
// # What is sent
//
// The bytes that Gatekeeper's own drivers write. A json.RawMessage or []byte is
// not touched, unless it has a line break between its tokens.
//
// The subject, which is Gatekeeper's flag --audit-channel, is not sent: there is
// one in an installation, and the protocol has no place for it beside the name of
// the producer. To see it downstream, name it there:
//
//	producer: gatekeeper/audit-channel
//
//	driver.go      Driver: connections by name
//	connection.go  one connection: what is waited for, and for how long
//	config.go      the configuration of a connection
//	line.go        the line of a record, and its rank
package gatekeeperexport

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/docket-export/docket/client"
)

// Name is what a Connection gives as its driver.
const Name = "docket"

// Options configure a Driver. The zero value is the default.
type Options struct {
	// Log is told of connections, losses, and what a replaced connection has
	// left. nil: nobody is told.
	Log *slog.Logger
	// Pod is the last part of the producer's name. Empty: the name of the host, which is the name
	// of the pod unless the pod uses the network of its node.
	Pod string
}

// Driver publishes records to docket over named connections. It has the methods of Gatekeeper's
// interfaces driver.Driver and driver.BatchDriver. Safe for concurrent use.
type Driver struct {
	log  *slog.Logger
	pod  string
	open func(client.Config) (*client.Client, error)

	mu          sync.RWMutex
	connections map[string]*connection
}

// New returns a driver without connections.
func New(options Options) *Driver {
	d := &Driver{
		log:  options.Log,
		pod:  options.Pod,
		open: client.New,

		connections: make(map[string]*connection),
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.pod == "" {
		d.pod, _ = os.Hostname() // without one the producer has the name of the product alone
	}
	return d
}

// CreateConnection opens a connection as config says. It does not wait for the
// exporter. An error has everything that is wrong with config. A connection of
// that name that is open is replaced, as UpdateConnection does.
func (d *Driver) CreateConnection(_ context.Context, connectionName string, config any) error {
	return d.put(connectionName, config, false)
}

// UpdateConnection replaces a connection. With the config it has, it goes on as it is. Otherwise
// the new connection is opened before the old one is closed. A Publish that is under way ends on
// the old connection, which then sends its buffer. UpdateConnection waits for it. What the old one cannot
// send within half a minute is lost and logged. On an error the old connection stays.
func (d *Driver) UpdateConnection(_ context.Context, connectionName string, config any) error {
	return d.put(connectionName, config, true)
}

// put opens a connection and closes an old one of that name, which must be there if
// replace is true.
func (d *Driver) put(name string, config any, replace bool) error {
	old, err := d.swap(name, config, replace)
	if old == nil || err != nil {
		return err
	}
	if err := old.close(replacedTimeout); err != nil {
		d.log.Warn("a replaced connection could not send all its records", "connection", name, "error", err)
	}
	return nil
}

// replacedTimeout bounds the closing of a connection that was replaced: enough
// for an exporter to restart.
const replacedTimeout = 30 * time.Second

// swap opens a connection and returns the one that it replaces, nil if there is none.
func (d *Driver) swap(name string, config any, replace bool) (old *connection, err error) {
	c, err := parseConfig(config, d.pod)
	if err != nil {
		return nil, fmt.Errorf("docket connection %s: config: %w", name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old = d.connections[name]
	switch {
	case replace && old == nil:
		return nil, notOpen(name)
	case old != nil && reflect.DeepEqual(old.config, c):
		return nil, nil //nolint:nilnil // it goes on
	}
	withLog := c
	withLog.Log = d.log.With("connection", name)
	cl, err := d.open(withLog)
	if err != nil {
		return nil, fmt.Errorf("docket connection %s: config: %w", name, err)
	}
	d.connections[name] = &connection{name: name, config: c, client: cl}
	return old, nil
}

// CloseConnection closes a connection. It waits for the calls of Publish that are
// under way, and then, for as long as the connection's timeout, for what is
// buffered. The error says how many records are lost with it. The connection is
// closed whatever it returns.
func (d *Driver) CloseConnection(connectionName string) error {
	d.mu.Lock()
	c, ok := d.connections[connectionName]
	delete(d.connections, connectionName)
	d.mu.Unlock()
	if !ok {
		return notOpen(connectionName)
	}
	return c.close(c.config.Timeout)
}

// Publish exports one record: a json.RawMessage, a []byte with JSON, or any value
// that encoding/json makes an object of. What nil means depends on the
// connection's mode; an error does not mean that the record will not arrive. It
// returns within the connection's timeout, or sooner if ctx ends. The subject is
// not sent.
func (d *Driver) Publish(ctx context.Context, connectionName string, data any, subject string) error {
	return d.PublishBatch(ctx, connectionName, []any{data}, subject)[0]
}

// PublishBatch exports several records at once and returns one error for each, in their order. If
// Publish waits for all of them, they also arrive in this order; see Publish. The timeout is for
// the whole call.
func (d *Driver) PublishBatch(ctx context.Context, connectionName string, data []any, _ string) []error {
	c, err := d.use(connectionName)
	if err != nil {
		return slices.Repeat([]error{err}, len(data))
	}
	defer c.calls.Done()
	ctx, cancel := context.WithTimeoutCause(ctx, c.config.Timeout, errTimeout)
	defer cancel()
	return c.publish(ctx, data)
}

// use returns a connection, which does not close before calls.Done.
func (d *Driver) use(name string) (*connection, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	c, ok := d.connections[name]
	if !ok {
		return nil, notOpen(name)
	}
	c.calls.Add(1) // with mu held, so that CloseConnection, which removes c from the map, sees it
	return c, nil
}

func notOpen(name string) error {
	return fmt.Errorf("docket connection %s is not open", name)
}

// errTimeout is the end of the time that a call has.
var errTimeout = fmt.Errorf("timeout of the connection: %w", context.DeadlineExceeded)
