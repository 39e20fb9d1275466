/* hpl_main: HPL alone, from the sources of Debian's hpcc, which by itself runs six other tests first. It reads hpccinf.txt, in the
 * form of HPL.dat, and prints what xhpl prints. */
#include <hpcc.h>

/* hpcc takes values of its own where its input cannot be read; a wrong input is an error here. */
int HPCC_Defaults(HPL_T_test *TEST, int *NS, int *N, int *NBS, int *NB, HPL_T_ORDER *PMAPPIN, int *NPQS, int *P, int *Q, int *NPFS,
                  HPL_T_FACT *PF, int *NBMS, int *NBM, int *NDVS, int *NDV, int *NRFS, HPL_T_FACT *RF, int *NTPS, HPL_T_TOP *TP,
                  int *NDHS, int *DH, HPL_T_SWAP *FSWAP, int *TSWAP, int *L1NOTRAN, int *UNOTRAN, int *EQUIL, int *ALIGN,
                  MPI_Comm comm) {
    fprintf(stderr, "hpccinf.txt cannot be read\n");
    MPI_Abort(comm, 1);
    return 1;
}

int main(int argc, char **argv) {
    HPL_RuntimeData best = {0};
    int failed = 0;
    MPI_Init(&argc, &argv);
    HPL_main(argc, argv, &best, &failed);
    MPI_Finalize();
    return failed;
}
