package verifycmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// NewKeygen returns docket keygen.
func NewKeygen() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keygen DIR|PREFIX",
		Short: "Make a pair of keys to sign file exports",
		Long: `keygen writes a pair of Ed25519 keys as PEM files: docket.key and docket.pub in
DIR, or PREFIX.key and PREFIX.pub. It replaces no file.

Give the private key to docket alone, as file.signature.keyFile of a sink. Its
mode is 0600: others cannot read it. To verify the export you need the public
key. Keep the public key on a machine that docket cannot write to.`,
		Example: `  docket keygen /etc/docket
  docket keygen ./compliance          compliance.key and compliance.pub`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("missing argument: directory or file prefix for the key pair")
			}
			return nil
		},
	}
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		prefix := args[0]
		if info, err := os.Stat(prefix); err == nil && info.IsDir() {
			prefix = filepath.Join(prefix, "docket")
		}
		k := keyFiles{PrivateKey: prefix + ".key", PublicKey: prefix + ".pub"}
		if err := k.make(); err != nil {
			return command.Failed(err)
		}
		if output.Value == "json" {
			return command.Failed(terminal.WriteJSON(cmd.OutOrStdout(), k))
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "private key %s: for docket alone; set file.signature.keyFile of the sink to this file\n"+
			"public key  %s: for docket verify --public-key\n", k.PrivateKey, k.PublicKey)
		return command.Failed(err)
	}
	return cmd
}

// keyFiles are the files of a pair of keys.
type keyFiles struct {
	PrivateKey string `json:"privateKey"`
	PublicKey  string `json:"publicKey"`
}

// make writes both files, or leaves none that it has begun.
func (k keyFiles) make() error {
	private, public, err := manifest.GenerateKey()
	if err != nil {
		return err
	}
	if err := command.WriteNew(k.PublicKey, public, 0o644); err != nil {
		return err
	}
	if err := command.WriteNew(k.PrivateKey, private, 0o600); err != nil {
		return errors.Join(err, os.Remove(k.PublicKey))
	}
	return nil
}
