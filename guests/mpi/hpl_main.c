/* hpl_main DIRECTORY: HPL alone, from the sources of Debian's hpcc, which by itself runs six other tests first. Process 0 reads
 * hpccinf.txt there, in the form of HPL.dat, and prints what xhpl prints. */
#include <hpcc.h>
#include <unistd.h>

/* Where hpcc's HPL writes, whatever its input says. */
static const char *const written = "hpccoutf.txt";

static void show(void) {
    char line[1024];
    FILE *f = fopen(written, "r");
    while (f && fgets(line, sizeof line, f))
        fputs(line, stdout);
    if (f)
        fclose(f);
}

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
    int failed = 0, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && argc > 1 && chdir(argv[1])) {
        perror(argv[1]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        remove(written);
    HPL_main(argc, argv, &best, &failed);
    if (rank == 0)
        show();
    MPI_Finalize();
    return failed;
}
