"""What the cluster shows of one SpeculativeDeployment, sorted once: pods, how they ended, and if they are ready."""
