// SPDX-License-Identifier: Apache-2.0
// The DMA engines for which get_dma_workspace returns a workspace.
#ifndef PTO_SIMPLER_DMA_WORKSPACE_H
#define PTO_SIMPLER_DMA_WORKSPACE_H

enum DmaWorkspaceKind { DMA_WORKSPACE_SDMA, DMA_WORKSPACE_URMA, DMA_WORKSPACE_KIND_COUNT };

#endif
