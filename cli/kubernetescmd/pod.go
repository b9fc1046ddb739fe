package kubernetescmd

// The part of a pod that is about docket, with the names that the API of Kubernetes has for
// it. Its libraries would make the program several times as large.

type pod struct {
	GracePeriod     int64       `json:"terminationGracePeriodSeconds"`
	SecurityContext podSecurity `json:"securityContext"`
	InitContainers  []container `json:"initContainers,omitempty"`
	Containers      []container `json:"containers,omitempty"`
	Volumes         []volume    `json:"volumes"`
}

type podSecurity struct {
	FSGroup int64 `json:"fsGroup"`
}

type container struct {
	Name            string             `json:"name"`
	Image           string             `json:"image,omitempty"`
	RestartPolicy   string             `json:"restartPolicy,omitempty"`
	Args            []string           `json:"args,omitempty"`
	Ports           []port             `json:"ports,omitempty"`
	StartupProbe    *probe             `json:"startupProbe,omitempty"`
	LivenessProbe   *probe             `json:"livenessProbe,omitempty"`
	ReadinessProbe  *probe             `json:"readinessProbe,omitempty"`
	Lifecycle       *lifecycle         `json:"lifecycle,omitempty"`
	SecurityContext *containerSecurity `json:"securityContext,omitempty"`
	Resources       *resources         `json:"resources,omitempty"`
	VolumeMounts    []volumeMount      `json:"volumeMounts"`
}

type port struct {
	Name          string `json:"name,omitempty"`
	ContainerPort int    `json:"containerPort"`
}

type probe struct {
	Exec             execAction `json:"exec"`
	PeriodSeconds    int        `json:"periodSeconds"`
	TimeoutSeconds   int        `json:"timeoutSeconds"`
	FailureThreshold int        `json:"failureThreshold,omitempty"`
}

type execAction struct {
	Command []string `json:"command"`
}

type lifecycle struct {
	PreStop preStop `json:"preStop"`
}

type preStop struct {
	Sleep sleep `json:"sleep"`
}

type sleep struct {
	Seconds int64 `json:"seconds"`
}

type containerSecurity struct {
	RunAsUser                int64          `json:"runAsUser"`
	RunAsGroup               int64          `json:"runAsGroup"`
	RunAsNonRoot             bool           `json:"runAsNonRoot"`
	ReadOnlyRootFilesystem   bool           `json:"readOnlyRootFilesystem"`
	AllowPrivilegeEscalation bool           `json:"allowPrivilegeEscalation"`
	Capabilities             capabilities   `json:"capabilities"`
	SeccompProfile           seccompProfile `json:"seccompProfile"`
}

type capabilities struct {
	Drop []string `json:"drop"`
}

type seccompProfile struct {
	Type string `json:"type"`
}

type resources struct {
	Requests quantities `json:"requests"`
	Limits   quantities `json:"limits"`
}

type quantities struct {
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory"`
}

type volumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

type volume struct {
	Name                  string           `json:"name"`
	ConfigMap             *configMapVolume `json:"configMap,omitempty"`
	Secret                *secretVolume    `json:"secret,omitempty"`
	EmptyDir              *emptyDir        `json:"emptyDir,omitempty"`
	Ephemeral             *ephemeral       `json:"ephemeral,omitempty"`
	PersistentVolumeClaim *claimVolume     `json:"persistentVolumeClaim,omitempty"`
}

type configMapVolume struct {
	Name string `json:"name"`
}

type secretVolume struct {
	SecretName  string `json:"secretName"`
	DefaultMode int    `json:"defaultMode"`
}

type emptyDir struct {
	SizeLimit string `json:"sizeLimit,omitempty"`
}

type ephemeral struct {
	VolumeClaimTemplate claimTemplate `json:"volumeClaimTemplate"`
}

type claimTemplate struct {
	Spec claimSpec `json:"spec"`
}

type claimSpec struct {
	AccessModes []string       `json:"accessModes"`
	Resources   claimResources `json:"resources"`
}

type claimResources struct {
	Requests claimRequests `json:"requests"`
}

type claimRequests struct {
	Storage string `json:"storage"`
}

type claimVolume struct {
	ClaimName string `json:"claimName"`
}

// deployment is a strategic merge patch of one.
type deployment struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   metadata       `json:"metadata"`
	Spec       deploymentSpec `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

type deploymentSpec struct {
	Replicas *int        `json:"replicas,omitempty"`
	Strategy *strategy   `json:"strategy,omitempty"`
	Template podTemplate `json:"template"`
}

type strategy struct {
	RollingUpdate rollingUpdate `json:"rollingUpdate"`
}

type rollingUpdate struct {
	MaxSurge       int `json:"maxSurge"`
	MaxUnavailable int `json:"maxUnavailable"`
}

type podTemplate struct {
	Spec pod `json:"spec"`
}
