// SPDX-License-Identifier: Apache-2.0
//
// Which engine a workspace of get_dma_workspace is for.
#ifndef PTO_SIMPLER_DMA_WORKSPACE_H
#define PTO_SIMPLER_DMA_WORKSPACE_H

enum DmaWorkspaceKind { DMA_WORKSPACE_SDMA, DMA_WORKSPACE_URMA, DMA_WORKSPACE_KIND_COUNT };

#endif
