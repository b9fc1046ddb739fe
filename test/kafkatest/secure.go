package kafkatest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/internal/freeport"
)

// The user and the password that a secure node takes by the mechanism PLAIN,
// which has its users in the node's configuration.
const (
	PlainUser     = "plain"
	PlainPassword = "plain-password"
)

// Secure is a cluster of one node which has, beside the plain listener that the
// methods of Cluster use, listeners with TLS for clients that authenticate. Such
// a client may do what Permit permits. Users of SCRAM are made by SetPassword;
// OAUTHBEARER takes tokens without a signature, and their subject is the user.
type Secure struct {
	*Cluster
	SASL   string      // address of the listener with SASL, host:port
	MTLS   string      // address of the one that wants a client certificate
	CA     testcert.CA // has issued the node's certificate, and issues those of clients
	Server string      // the name that the node's certificate is for
}

// StartSecure starts such a node.
func StartSecure(t testing.TB) *Secure {
	t.Helper()
	addresses, err := freeport.Loopback(2)
	if err != nil {
		t.Fatal(err)
	}
	s := &Secure{SASL: addresses[0], MTLS: addresses[1], CA: testcert.NewCA(t), Server: "127.0.0.1"}
	// A key store of PEM is one file with the key and then the chain.
	pair := s.CA.Issue(t, s.Server)
	keyStore := filepath.Join(t.TempDir(), "node.pem")
	if err := os.WriteFile(keyStore, []byte(pair.KeyPEM+pair.CertPEM+s.CA.PEM), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Cluster = start(t, Current, 1, &secureProperties{
		SASL: s.SASL, MTLS: s.MTLS, KeyStore: keyStore, TrustStore: s.CA.File,
		PlainUser: PlainUser, PlainPassword: PlainPassword,
	})
	return s
}

// SetPassword makes a user of both SCRAM mechanisms, or changes its password.
func (s *Secure) SetPassword(user, password string) {
	s.t.Helper()
	// One user may stand once in a request.
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		s.admin(func(ctx context.Context, admin *kadm.Client) error {
			changed, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{
				{User: user, Mechanism: mechanism, Iterations: 4096, Password: password},
			})
			if err != nil {
				return err
			}
			return changed.Error()
		})
	}
}

// Permit lets a user do operations with a topic.
func (s *Secure) Permit(user, topic string, operations ...kadm.ACLOperation) {
	s.t.Helper()
	s.permit(user, kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(operations...))
}

// PermitGroups lets a user do operations with groups whose names begin with prefix.
func (s *Secure) PermitGroups(user, prefix string, operations ...kadm.ACLOperation) {
	s.t.Helper()
	s.permit(user, kadm.NewACLs().Groups(prefix).ResourcePatternType(kadm.ACLPatternPrefixed).Operations(operations...))
}

// PermitTransactions lets a user do operations with transactional ids that begin with prefix.
func (s *Secure) PermitTransactions(user, prefix string, operations ...kadm.ACLOperation) {
	s.t.Helper()
	s.permit(user, kadm.NewACLs().TransactionalIDs(prefix).ResourcePatternType(kadm.ACLPatternPrefixed).Operations(operations...))
}

func (s *Secure) permit(user string, acls *kadm.ACLBuilder) {
	s.t.Helper()
	s.admin(func(ctx context.Context, admin *kadm.Client) error {
		created, err := admin.CreateACLs(ctx, acls.Allow("User:"+user).AllowHosts())
		if err != nil {
			return err
		}
		for _, c := range created {
			if c.Err != nil {
				return c.Err
			}
		}
		return nil
	})
}
