package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

func newKeygen() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keygen DIR|PREFIX",
		Short: "Make a pair of keys to sign file exports with",
		Long: `keygen makes a pair of Ed25519 keys as PEM files: docket.key and docket.pub in DIR,
or PREFIX.key and PREFIX.pub. It replaces no file.

The private key belongs to the exporter alone, as file.signature.keyFile of a sink;
it cannot be read by others (mode 0600). Whoever is to prove the export needs the
public key, from a place that nobody who can write to the export can write to.`,
		Example: `  docket keygen /etc/docket
  docket keygen ./compliance          compliance.key and compliance.pub`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("where to? name a directory, or how the names of the two files begin")
			}
			return nil
		},
	}
	output := outputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		prefix := args[0]
		if info, err := os.Stat(prefix); err == nil && info.IsDir() {
			prefix = filepath.Join(prefix, "docket")
		}
		k := keyFiles{PrivateKey: prefix + ".key", PublicKey: prefix + ".pub"}
		if err := k.make(); err != nil {
			return failed(err)
		}
		if output.value == "json" {
			return failed(writeJSON(cmd.OutOrStdout(), k))
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "private key %s: for the exporter alone; set file.signature.keyFile of the sink to it\n"+
			"public key  %s: for docket verify --public-key\n", k.PrivateKey, k.PublicKey)
		return failed(err)
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
	if err := writeNew(k.PublicKey, public, 0o644); err != nil {
		return err
	}
	if err := writeNew(k.PrivateKey, private, 0o600); err != nil {
		return errors.Join(err, os.Remove(k.PublicKey))
	}
	return nil
}

// writeNew makes a durable file that must not exist; after an error there is none.
func writeNew(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already, and a key that is in use must not be lost: choose another name", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
